# "Restore whatever boots next", and what boots next has no backup: blocked, until the request is taken back.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
guard backups restore --next-boot -> 0
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 4 requested
    | a restore was asked for, and there is nothing to restore
    | error: a restore of a backup of rhel-d2 was asked for, and there is none
    | hint: `holdfast guard backups list` shows what there is; `holdfast guard backups restore --cancel` takes the request back
expect data etcd=one
run -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
guard backups restore --cancel -> 0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect copy rhel-d1 etcd=one
run -> 0
green
