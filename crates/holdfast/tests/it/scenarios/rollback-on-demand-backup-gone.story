# Rollback on demand, but the backup of the first is gone: its older program is refused the newer data, which is backed up.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | - migrate: the data is of 4.14.0, the program is 4.15.0: migrate, starting from backup <n>
run etcd=two -> 0
green
sh rm -r "$BACKUPS/rhel-d1"
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 4 owner-healthy
    | the data of rhel-d2 (boot <n>) was healthy: back it up
    | - backup as rhel-d2
    | error: the data is of 4.15.0, the program is 4.14.0: an older program can't read newer data
    | hint: boot a deployment with 4.15.0 or newer, or bring back data that fits: `holdfast guard backups list`, then `holdfast guard backups restore N`
expect data etcd=two
expect version 4.15.0 rhel-d2
expect copy rhel-d2 etcd=two of 4.15.0 rhel-d2
run -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
red
boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d2 (boot <n>) was healthy, and copy <n> holds it
expect data etcd=two
run -> 0
green
