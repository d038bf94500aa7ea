# The data directory is gone, the backups are there: start fresh, and prune nothing in that boot.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run etcd=two -> 0
green
sh rm -r "$DATA"
boot rhel-d2 4.14.0
pre-run -> 0 data-gone
    | there is no data: start fresh, and leave every backup alone
expect data none
expect backups health.json rhel-d1/
run etcd=fresh -> 0
green
expect backups health.json rhel-d1/
expect copy rhel-d1 etcd=one
guard backups restore rhel-d1 -> 0
    | branch   requested
    | reason   an administrator asked for copy <n> of rhel-d1
    |   1. record-boot        every boot is recorded before anything else happens
    |   2. backup             the data of rhel-d2 (boot <n>) is good data: keep it before it is replaced
    |   3. restore            an administrator asked for copy <n> of rhel-d1
    | the workload may start
expect data etcd=one
