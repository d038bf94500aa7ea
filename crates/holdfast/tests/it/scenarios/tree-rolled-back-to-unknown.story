# Tree, a gap of the document: the other was unhealthy, and this one got no verdict when it ran last. The newest healthy
# backup of its own comes back.

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
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1 (boot <n>), which was not healthy: start clean
    | - move-aside as unhealthy__rhel-d1
run etcd=three -> 0
red
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 rolled-back-to-unknown
    | the data of rhel-d2 (boot <n>) was not healthy, and rhel-d1 got no verdict when it ran last
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2
expect data etcd=one
expect version 4.14.0 rhel-d1
