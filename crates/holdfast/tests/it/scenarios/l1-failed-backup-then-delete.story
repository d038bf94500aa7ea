# L1: green; in the next boot the backup fails because the disk is full, the boot goes red; next boot. As written in the
# document, the tree then deletes the only data there is. Here it is backed up once there is room.

small-disk 200k
boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
sh head -c 300000 /dev/zero | tr '\0' x > "$DATA/ballast"
green
boot rhel-d1 4.14.0
pre-run -> 5 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | error: not enough room: <n> bytes and 5 files are to be written below $BACKUPS/.staging, <n> bytes are free
    | hint: free some space on the file system of $BACKUPS/.staging: `holdfast guard backups list` shows what guard keeps there, `holdfast guard backups prune` removes what is no longer needed
expect said not enough room
red
expect health rhel-d1 unhealthy unhealthy
expect backups health.json
boot rhel-d1 4.14.0
pre-run -> 5 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | error: not enough room: <n> bytes and 5 files are to be written below $BACKUPS/.staging, <n> bytes are free
    | hint: free some space on the file system of $BACKUPS/.staging: `holdfast guard backups list` shows what guard keeps there, `holdfast guard backups prune` removes what is no longer needed
red
expect data ballast=(300000-bytes) etcd=one

sh mount -o remount,size=4m "$BACKUPS"
boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect data ballast=(300000-bytes) etcd=one
expect copy rhel-d1 ballast=(300000-bytes) etcd=one
run -> 0
green
