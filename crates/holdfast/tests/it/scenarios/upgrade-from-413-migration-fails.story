# 4.13 -> 4.14: the storage migration fails; each boot starts again from the 4.13 backup.

sh mkdir "$DATA"; echo old > "$DATA/etcd"
boot rhel-d1 4.14.0 beside rhel-d0
set migration.command ["/bin/sh","-c","echo half > $0/etcd; echo no space in etcd >&2; exit 1"]
pre-run -> 7 no-record-assumed
    | data without version.json, and no boot on record: taken for 4.13
    | - assume
    | - backup as 4.13: keep it before anything touches it
    | - migrate: the data is of 4.13, the program is 4.14.0: migrate, starting from backup <n>
    | error: the migration from 4.13 to 4.14.0 failed: /bin/sh -c echo half > $0/etcd; echo no space in etcd >&2; exit 1 $DATA 4.13 4.14.0 exit code 1: no space in etcd
    | hint: the next boot returns to the base backup by itself and tries again; `holdfast guard history` shows what the migration printed
expect said no space in etcd
expect version 4.13 rhel-d1 failed
run -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
red

boot rhel-d1 4.14.0 beside rhel-d0
pre-run -> 7
    | nobody has judged the data of 4.13: keep a copy and go on
    | - restore from 4.13 after moving the data to unhealthy__rhel-d1: the migration from 4.13 to 4.14.0 failed: return to the backup it started from
    | - migrate: the data is of 4.13, the program is 4.14.0: migrate, starting from backup <n>
    | error: the migration from 4.13 to 4.14.0 failed: /bin/sh -c echo half > $0/etcd; echo no space in etcd >&2; exit 1 $DATA 4.13 4.14.0 exit code 1: no space in etcd
    | hint: the next boot returns to the base backup by itself and tries again; `holdfast guard history` shows what the migration printed
expect version 4.13 rhel-d1 failed
expect copy 4.13 etcd=old of 4.13 4.13
red

boot rhel-d1 4.14.0 beside rhel-d0
set migration.command ["/bin/sh","-c","cat $0/etcd > $0/seen; echo new > $0/etcd"]
pre-run -> 0 
    | nobody has judged the data of 4.13: keep a copy and go on
    | - restore from 4.13 after moving the data to unhealthy__rhel-d1__2: the migration from 4.13 to 4.14.0 failed: return to the backup it started from
    | - migrate: the data is of 4.13, the program is 4.14.0: migrate, starting from backup <n>
expect version 4.14.0 rhel-d1
expect data etcd=new seen=old
run -> 0
green
