# A gap of the tree: never healthy, and the one before got no verdict. The data is its own: keep it.

set staged-over-unhealthy keep
boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1 (boot <n>), which was not healthy: kept, as configured
run etcd=two -> 0
red
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 always-unhealthy-over-unknown
    | rhel-d2 was never healthy, and rhel-d1 before it got no verdict: the data is its own, keep it
expect data etcd=two
