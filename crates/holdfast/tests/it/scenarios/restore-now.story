# `backups restore` by number, by deployment and by name; what is not there is not found; a running workload is in the way.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run etcd=two -> 0
red
guard backups list -> 0
    | N   NAME      VERSION   HEALTHY   BOOT   MADE
    | 3   rhel-d1   4.14.0    yes       1      <time>
guard backups restore 99 -> 3
    | error: a restore of copy <n> was asked for, and there is none
    | hint: `holdfast guard backups list` shows what there is; `holdfast guard backups restore --cancel` takes the request back
guard backups restore rhel-d9 -> 3
    | error: a restore of a backup of rhel-d9 was asked for, and there is none
    | hint: `holdfast guard backups list` shows what there is; `holdfast guard backups restore --cancel` takes the request back
guard backups restore --dry-run 3 -> 0
    | branch   requested
    | reason   an administrator asked for copy <n> of rhel-d1
    |   1. record-boot        every boot is recorded before anything else happens
    |   2. restore            an administrator asked for copy <n> of rhel-d1
    | the workload may start
expect data etcd=two
guard backups restore 3 -> 0
    | branch   requested
    | reason   an administrator asked for copy <n> of rhel-d1
    |   1. record-boot        every boot is recorded before anything else happens
    |   2. restore            an administrator asked for copy <n> of rhel-d1
    | the workload may start
expect data etcd=one
expect copy unhealthy__rhel-d2 etcd=two
guard backups restore unhealthy__rhel-d2 -> 0
    | branch   requested
    | reason   an administrator asked for copy <n> of rhel-d2
    |   1. record-boot        every boot is recorded before anything else happens
    |   2. restore            an administrator asked for copy <n> of rhel-d2
    | the workload may start
expect data etcd=two
guard backups restore rhel-d1 -> 0
    | branch   requested
    | reason   an administrator asked for copy <n> of rhel-d1
    |   1. record-boot        every boot is recorded before anything else happens
    |   2. restore            an administrator asked for copy <n> of rhel-d1
    | the workload may start
expect data etcd=one

# The workload holds its lock for as long as it runs.
sh flock "$BACKUPS/.run.lock" sleep 5 > /dev/null 2>&1 & while flock -n "$BACKUPS/.run.lock" true; do sleep 0.02; done
guard backups restore rhel-d1 -> 75
    | error: the workload is running (unknown)
    | hint: stop the workload first
pre-run -> 75
    | error: the workload is running (unknown)
    | hint: stop the workload first
