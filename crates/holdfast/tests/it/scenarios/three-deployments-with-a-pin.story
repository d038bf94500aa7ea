# Three deployments on the host, one of them pinned: the backup of the pinned one is kept, that of one that is gone is
# not needed once two healthy generations exist besides it.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d2 4.14.0 beside rhel-d1 pinned rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run etcd=two -> 0
green
boot rhel-d3 4.14.0 beside rhel-d2 rhel-d1 pinned rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d2 (boot <n>) was healthy: back it up
    | - backup as rhel-d2
run etcd=three -> 0
green
expect backups health.json rhel-d1/ rhel-d2/
boot rhel-d4 4.14.0 beside rhel-d3 rhel-d1 pinned rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d3 (boot <n>) was healthy: back it up
    | - backup as rhel-d3
run etcd=four -> 0
green
expect copy rhel-d1 etcd=one
expect copy rhel-d3 etcd=three
boot rhel-d4 4.14.0 beside rhel-d3 rhel-d1 pinned rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d4 (boot <n>) was healthy: back it up
    | - backup as rhel-d4
run etcd=five -> 0
green
expect backups health.json rhel-d1/ rhel-d3/ rhel-d4/
guard deployments -> 0
    | DEPLOYMENT   STATE
    | rhel-d4      booted
    | rhel-d3      rollback
    | rhel-d1      pinned

# Back to the pinned one, with the version that the others have: the data stays.
boot rhel-d1 4.14.0 beside rhel-d4 rhel-d3 pinned rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d4 (boot <n>) was healthy: back it up
    | - backup as rhel-d4
expect data etcd=five
