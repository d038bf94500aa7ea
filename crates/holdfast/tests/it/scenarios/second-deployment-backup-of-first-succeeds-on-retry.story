# As above, but the second try of the second deployment succeeds: it upgrades from the data of the first after all.

small-disk 200k
boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
sh head -c 300000 /dev/zero | tr '\0' x > "$DATA/ballast"
green

boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 5 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | - migrate: the data is of 4.14.0, the program is 4.15.0: migrate, starting from backup <n>
    | error: not enough room: <n> bytes and 5 files are to be written below $BACKUPS/.staging, <n> bytes are free
    | hint: free some space on the file system of $BACKUPS/.staging: `holdfast guard backups list` shows what guard keeps there, `holdfast guard backups prune` removes what is no longer needed
red
expect version 4.14.0 rhel-d1
sh mount -o remount,size=4m "$BACKUPS"

boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | - migrate: the data is of 4.14.0, the program is 4.15.0: migrate, starting from backup <n>
expect copy rhel-d1 ballast=(300000-bytes) etcd=one of 4.14.0 rhel-d1
expect version 4.15.0 rhel-d2
run etcd=two -> 0
green
expect health rhel-d2 healthy healthy; rhel-d1 healthy healthy
