# The second deployment never got as far as pre-run: for guard it was never there.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d2 4.15.0 beside rhel-d1
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect data etcd=one
expect copy rhel-d1 etcd=one
expect health rhel-d1 unknown unknown
