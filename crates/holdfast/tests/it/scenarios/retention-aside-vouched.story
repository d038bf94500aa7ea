# What was moved aside and then vouched for is the only copy of that: the cap does not take it.

set retention.aside-max 1
boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
red
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1 (boot <n>), which was not healthy: start clean
    | - move-aside as unhealthy__rhel-d1
guard mark-deploy-as-healthy rhel-d1 --reason "it was the network" -> 0
    | rhel-d1 is marked healthy (boot <n>)
run etcd=two -> 0
red
boot rhel-d2 4.14.0 beside rhel-d0
pre-run -> 0
    | rhel-d2 was never healthy, and rhel-d1 before it is gone from the host: start clean
    | - move-aside as unhealthy__rhel-d2
run etcd=three -> 0
red
boot rhel-d2 4.14.0 beside rhel-d0
pre-run -> 0
    | rhel-d2 was never healthy, and rhel-d1 before it is gone from the host: start clean
    | - move-aside as unhealthy__rhel-d2__2
    | - discard unhealthy__rhel-d2: more data was moved aside than the limits allow
run etcd=four -> 0
red
boot rhel-d3 4.14.0 beside rhel-d0
pre-run -> 0
    | rhel-d3 was staged over the data of rhel-d2 (boot <n>), which was not healthy: start clean
    | - move-aside as unhealthy__rhel-d2
    | - discard unhealthy__rhel-d2__2: more data was moved aside than the limits allow
expect copy unhealthy__rhel-d1 etcd=one of 4.14.0 rhel-d1
guard backups restore unhealthy__rhel-d1 -> 0
    | branch   requested
    | reason   an administrator asked for copy <n> of rhel-d1
    |   1. record-boot        every boot is recorded before anything else happens
    |   2. restore            an administrator asked for copy <n> of rhel-d1
    |   3. backup             the data of rhel-d1 (boot <n>) was healthy: back it up
    |   4. discard            more data was moved aside than the limits allow
    | the workload may start
expect data etcd=one
