# Two soft reboots within one life of the kernel, there and back: the second visit of the first deployment is a boot of its
# own, with data to be judged anew, although kernel and deployment have been seen together before.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
soft-reboot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run etcd=two -> 0
red
soft-reboot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 rolled-back-to-healthy
    | the data of rhel-d2 (boot <n>) was not healthy, rhel-d1 was: its own data comes back
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2
expect data etcd=one
expect version 4.14.0 rhel-d1
run -> 0
