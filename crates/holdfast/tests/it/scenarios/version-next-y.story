# Versions: the next Y migrates. The migration is told the directory and both versions.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d2 4.15.2 beside rhel-d1
set migration.command ["/bin/sh","-c","test $0 = $HOLDFAST_DATA_DIR; echo $1-$2-$HOLDFAST_FROM_VERSION-$HOLDFAST_TO_VERSION > $0/migrated"]
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | - migrate: the data is of 4.14.0, the program is 4.15.2: migrate, starting from backup <n>
expect data etcd=one migrated=4.14.0-4.15.2-4.14.0-4.15.2
expect version 4.15.2 rhel-d2
expect copy rhel-d1 etcd=one of 4.14.0 rhel-d1
run -> 0
green
