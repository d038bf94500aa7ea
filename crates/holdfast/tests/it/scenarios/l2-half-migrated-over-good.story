# L2: green; the second deployment backs that up, and the power fails inside its migration; next boot. As written, the good
# backup is overwritten with half-migrated data. Here the next boot returns to it by itself.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d2 4.15.0 beside rhel-d1
set migration.command ["/bin/sh","-c","echo half > $0/etcd; kill -9 $PPID; sleep 1"]
pre-run -> killed
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | - migrate: the data is of 4.14.0, the program is 4.15.0: migrate, starting from backup <n>
expect version 4.14.0 rhel-d2 migrating
expect data etcd=half
expect copy rhel-d1 etcd=one of 4.14.0 rhel-d1
run -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does

boot rhel-d1 4.14.0 beside rhel-d2
unset migration.command
pre-run -> 0
    | the data of rhel-d1 (boot <n>) was healthy, and copy <n> holds it
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2: the migration from 4.14.0 to 4.15.0 was interrupted: return to the backup it started from
expect data etcd=one
expect version 4.14.0 rhel-d1
expect copy rhel-d1 etcd=one of 4.14.0 rhel-d1
run -> 0
green
