# A migration is killed in the middle; the next boot of the same deployment returns to the base and migrates again.

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
boot rhel-d2 4.15.0 beside rhel-d1
set migration.command ["/bin/sh","-c","cp $0/etcd $0/seen; echo new > $0/etcd"]
pre-run -> 0
    | the data of rhel-d1 (boot <n>) was healthy, and copy <n> holds it
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2: the migration from 4.14.0 to 4.15.0 was interrupted: return to the backup it started from
    | - migrate: the data is of 4.14.0, the program is 4.15.0: migrate, starting from backup <n>
expect data etcd=new seen=one
expect version 4.15.0 rhel-d2
expect backups health.json rhel-d1/ unhealthy__rhel-d2/
run -> 0
green
expect copy rhel-d1 etcd=one of 4.14.0 rhel-d1
