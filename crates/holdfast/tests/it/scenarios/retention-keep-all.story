# Retention: `keep = "all"` leaves the cleaning to people.

set retention.keep all
boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d2 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run etcd=two -> 0
green
boot rhel-d3 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d2 (boot <n>) was healthy: back it up
    | - backup as rhel-d2
run etcd=three -> 0
green
boot rhel-d4 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d3 (boot <n>) was healthy: back it up
    | - backup as rhel-d3
run etcd=four -> 0
green
expect backups health.json rhel-d1/ rhel-d2/ rhel-d3/
guard backups prune -> 0
    | nothing to remove
expect backups health.json rhel-d1/ rhel-d2/ rhel-d3/
