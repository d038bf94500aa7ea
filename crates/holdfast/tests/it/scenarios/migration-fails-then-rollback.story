# A migration fails in every boot of the second deployment, then the first boots again and has its data back.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
set migration.command ["/bin/sh","-c","echo half > $0/etcd; exit 1"]
boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 7 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | - migrate: the data is of 4.14.0, the program is 4.15.0: migrate, starting from backup <n>
    | error: the migration from 4.14.0 to 4.15.0 failed: /bin/sh -c echo half > $0/etcd; exit 1 $DATA 4.14.0 4.15.0 exit code 1:
    | hint: the next boot returns to the base backup by itself and tries again; `holdfast guard history` shows what the migration printed
expect version 4.14.0 rhel-d2 failed
run -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
red
boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 7
    | the data of rhel-d1 (boot <n>) was healthy, and copy <n> holds it
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2: the migration from 4.14.0 to 4.15.0 failed: return to the backup it started from
    | - migrate: the data is of 4.14.0, the program is 4.15.0: migrate, starting from backup <n>
    | error: the migration from 4.14.0 to 4.15.0 failed: /bin/sh -c echo half > $0/etcd; exit 1 $DATA 4.14.0 4.15.0 exit code 1:
    | hint: the next boot returns to the base backup by itself and tries again; `holdfast guard history` shows what the migration printed
red
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0
    | the data of rhel-d1 (boot <n>) was healthy, and copy <n> holds it
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2__2: the migration from 4.14.0 to 4.15.0 failed: return to the backup it started from
expect data etcd=one
expect version 4.14.0 rhel-d1
run -> 0
green
expect health rhel-d1 healthy healthy; rhel-d2 unhealthy unhealthy
expect copy rhel-d1 etcd=one of 4.14.0 rhel-d1
