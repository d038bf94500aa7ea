# L4: d1 green; d1 red; d2 starts clean and works; back to d1. As written, d2's data is overwritten with no copy of it.

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
red
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1 (boot <n>), which was not healthy: start clean
    | - move-aside as unhealthy__rhel-d1
run etcd=three -> 0
green
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0
    | the data of rhel-d2 (boot <n>) was healthy: back it up
    | - backup as rhel-d2
expect copy rhel-d2 etcd=three of 4.14.0 rhel-d2
expect copy rhel-d1 etcd=one
run -> 0
green
