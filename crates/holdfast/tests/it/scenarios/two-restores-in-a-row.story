# Two restores in a row, with nothing run in between: nothing is lost and nothing piles up under the same name.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | - migrate: the data is of 4.14.0, the program is 4.15.0: migrate, starting from backup <n>
run etcd=two -> 0
green
boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d2 (boot <n>) was healthy: back it up
    | - backup as rhel-d2
guard backups restore rhel-d1 -> 0
    | branch   requested
    | reason   an administrator asked for copy <n> of rhel-d1
    |   1. record-boot        every boot is recorded before anything else happens
    |   2. restore            an administrator asked for copy <n> of rhel-d1
    | blocked (migration-needed): the data is of an older version than the booted program and was not migrated
    | way out: boot the deployment that it belongs to, or migrate it: `holdfast guard pre-run`
expect data etcd=one
guard backups restore rhel-d2 -> 0
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
    | blocked (migration-needed): the data is of an older version than the booted program and was not migrated
    | way out: boot the deployment that it belongs to, or migrate it: `holdfast guard pre-run`
expect data etcd=one
expect version 4.14.0 rhel-d1
guard backups list -> 0
    | N   NAME                   VERSION   HEALTHY   BOOT   MADE
    | 3   rhel-d1                4.14.0    yes       1      <time>
    | 5   rhel-d2                4.15.0    yes       2      <time>
    | 6   replaced__rhel-d2      4.15.0    yes       2      <time>
    | 7   replaced__rhel-d1      4.14.0    yes       1      <time>
    | 8   replaced__rhel-d2__2   4.15.0    yes       2      <time>
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0
    | the data of rhel-d1 (boot <n>) was healthy, and copy <n> holds it
expect data etcd=one
run -> 0
green
expect copy rhel-d1 etcd=one
expect copy rhel-d2 etcd=two
