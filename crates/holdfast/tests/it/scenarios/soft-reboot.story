# A soft reboot keeps the boot's name and changes the deployment: the pair is the key, so each has its own verdict.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
soft-reboot rhel-d2 4.14.0 beside rhel-d1
run -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect copy rhel-d1 etcd=one
run etcd=two -> 0
expect health rhel-d2 unknown unknown; rhel-d1 healthy healthy
red
expect health rhel-d2 unhealthy unhealthy; rhel-d1 healthy healthy
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 rolled-back-to-healthy
    | the data of rhel-d2 (boot <n>) was not healthy, rhel-d1 was: its own data comes back
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2
expect data etcd=one
