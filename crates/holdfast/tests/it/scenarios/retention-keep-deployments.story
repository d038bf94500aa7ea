# Retention: what the host no longer lists goes after a green boot, but two healthy generations always stay.

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
green
boot rhel-d3 4.14.0 beside rhel-d2
pre-run -> 0 owner-healthy
    | the data of rhel-d2 (boot <n>) was healthy: back it up
    | - backup as rhel-d2
run etcd=three -> 0
red
expect backups health.json rhel-d1/ rhel-d2/
green
# Of rhel-d1 nothing is listed any more, yet it is one of the two healthy ones.
expect backups health.json rhel-d1/ rhel-d2/
boot rhel-d3 4.14.0 beside rhel-d2
pre-run -> 0 owner-healthy
    | the data of rhel-d3 (boot <n>) was healthy: back it up
    | - backup as rhel-d3
expect backups health.json rhel-d1/ rhel-d2/ rhel-d3/
run etcd=four -> 0
guard backups prune --dry-run -> 0
    | N   NAME      REASON
    | 3   rhel-d1   the host no longer lists rhel-d1, and enough healthy backups of others exist
green
expect backups health.json rhel-d2/ rhel-d3/
