# Healthy at first, unhealthy later in the same boot: what was good once is kept before anything else happens to it.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
red
expect health rhel-d1 unhealthy unhealthy
boot rhel-d1 4.14.0
pre-run -> 0 unhealthy-again
    | rhel-d1 was healthy before and is unhealthy now: leave its data, let it try again
    | - backup as rhel-d1: the data of rhel-d1 (boot <n>) was healthy: back it up
expect data etcd=one
expect copy rhel-d1 etcd=one of 4.14.0 rhel-d1
run etcd=two -> 0
red
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1 (boot <n>), which was not healthy: start clean
    | - move-aside as unhealthy__rhel-d1
expect data none
expect copy rhel-d1 etcd=one
expect copy unhealthy__rhel-d1 etcd=two
