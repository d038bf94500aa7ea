# pre-run blocks: the workload's own check fails for that alone. The system is called healthy all the same: that says
# nothing about the data, which stays as good as its owner left it.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d2 4.16.0 beside rhel-d1
pre-run -> 4 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | error: the program 4.16.0 is more than 1 minor version ahead of the data (4.14.0)
    | hint: go through the versions between, or set `max-skew` if the workload allows it
run etcd=two -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
guard healthcheck -> 12
    | CHECK            KIND     NEED       OUTCOME   DETAIL
    | 40_workload.sh   script   required   passed
    | pre-run          guard    required   failed    pre-run did not prepare this boot: `holdfast guard history` says why
    | unhealthy
guard persist-system-health --healthy -> 0
expect version 4.14.0 rhel-d1
expect data etcd=one
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy, and copy <n> holds it
expect data etcd=one
expect copy rhel-d1 etcd=one of 4.14.0 rhel-d1
expect backups health.json rhel-d1/
run etcd=three -> 0
green
