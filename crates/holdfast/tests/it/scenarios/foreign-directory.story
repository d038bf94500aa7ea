# Directories that guard did not make are never touched; `backups adopt` takes one over.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
sh cp -a "$DATA" "$BACKUPS/rhel-d7"; echo seven > "$BACKUPS/rhel-d7/etcd"; echo '{"microshift": "4.14.0", "deployment": "rhel-d7"}' > "$BACKUPS/rhel-d7/version.json"
sh mkdir "$BACKUPS/unhealthy__rhel-d1" "$BACKUPS/notes"; echo mine > "$BACKUPS/unhealthy__rhel-d1/file"; echo mine > "$BACKUPS/notes/file"
boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run etcd=two -> 0
red
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1 (boot <n>), which was not healthy: start clean
    | - move-aside as unhealthy__rhel-d1__2
run etcd=three -> 0
green
expect backups health.json notes/ rhel-d1/ rhel-d7/ unhealthy__rhel-d1/ unhealthy__rhel-d1__2/
expect copy unhealthy__rhel-d1 file=mine
expect copy unhealthy__rhel-d1__2 etcd=two
expect copy rhel-d7 etcd=seven
guard backups list -> 0
    | N   NAME                    VERSION   HEALTHY   BOOT   MADE
    | 3   rhel-d1                 4.14.0    yes       1      <time>
    | 5   unhealthy__rhel-d1__2   4.14.0    no        2      <time>
    | (not made by guard: notes)
    | (not made by guard: rhel-d7)
    | (not made by guard: unhealthy__rhel-d1)
guard backups restore rhel-d7 -> 3
    | error: a restore of a backup of rhel-d7 was asked for, and there is none
    | hint: `holdfast guard backups list` shows what there is; `holdfast guard backups restore --cancel` takes the request back
guard backups adopt notes -> 4
    | error: $BACKUPS/notes: it has no version.json
    | hint: a backup is a directory named after its deployment, with version.json in it
guard backups adopt rhel-d8 -> 3
    | error: $BACKUPS/rhel-d8 is not there, or guard made it itself
    | hint: `holdfast guard backups list` shows what guard knows
guard backups adopt rhel-d1 -> 3
    | error: $BACKUPS/rhel-d1 is not there, or guard made it itself
    | hint: `holdfast guard backups list` shows what guard knows
guard backups adopt rhel-d7 --healthy -> 0
    | N   NAME      VERSION   HEALTHY   BOOT   MADE
    | 6   rhel-d7   4.14.0    yes       -
guard backups restore rhel-d7 -> 0
    | branch   requested
    | reason   an administrator asked for copy <n> of rhel-d7
    |   1. record-boot        every boot is recorded before anything else happens
    |   2. backup             the data of rhel-d2 (boot <n>) is good data: keep it before it is replaced
    |   3. restore            an administrator asked for copy <n> of rhel-d7
    | the workload may start
expect data etcd=seven
expect version 4.14.0 rhel-d7
