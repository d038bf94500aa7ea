# The first deployment was active for only one boot, and its backup fails: in the second deployment's first boot, in
# greenboot's retries, and after the rollback. The disk is full.

small-disk 200k
boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
sh head -c 300000 /dev/zero | tr '\0' x > "$DATA/ballast"
green

boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 5 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | error: not enough room: <n> bytes and 5 files are to be written below $BACKUPS/.staging, <n> bytes are free
    | hint: free some space on the file system of $BACKUPS/.staging: `holdfast guard backups list` shows what guard keeps there, `holdfast guard backups prune` removes what is no longer needed
run etcd=two -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
red
expect version 4.14.0 rhel-d1
expect health rhel-d2 unhealthy unhealthy; rhel-d1 healthy healthy
expect backups health.json

boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 5 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | error: not enough room: <n> bytes and 5 files are to be written below $BACKUPS/.staging, <n> bytes are free
    | hint: free some space on the file system of $BACKUPS/.staging: `holdfast guard backups list` shows what guard keeps there, `holdfast guard backups prune` removes what is no longer needed
red
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 5 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | error: not enough room: <n> bytes and 5 files are to be written below $BACKUPS/.staging, <n> bytes are free
    | hint: free some space on the file system of $BACKUPS/.staging: `holdfast guard backups list` shows what guard keeps there, `holdfast guard backups prune` removes what is no longer needed
red
expect version 4.14.0 rhel-d1
expect data ballast=(300000-bytes) etcd=one
expect health rhel-d2 unhealthy unhealthy; rhel-d1 healthy healthy
expect backups health.json

# The rollback finds its own data untouched, tries to back it up, and fails as well.
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 5 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | error: not enough room: <n> bytes and 5 files are to be written below $BACKUPS/.staging, <n> bytes are free
    | hint: free some space on the file system of $BACKUPS/.staging: `holdfast guard backups list` shows what guard keeps there, `holdfast guard backups prune` removes what is no longer needed
expect version 4.14.0 rhel-d1
expect data ballast=(300000-bytes) etcd=one
red

# Manual intervention: the disk grows.
sh mount -o remount,size=4m "$BACKUPS"
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect copy rhel-d1 ballast=(300000-bytes) etcd=one of 4.14.0 rhel-d1
run etcd=more -> 0
green
expect data ballast=(300000-bytes) etcd=more
expect health rhel-d1 healthy healthy; rhel-d2 unhealthy unhealthy
