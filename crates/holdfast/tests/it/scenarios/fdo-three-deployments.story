# Fail first startup, FDO: three deployments with the workload are staged in turn from one without it, none is healthy.
# Where the document deletes the leftovers, they are moved aside.

# rhel-d0 has no workload: nothing runs there.
boot rhel-d1 4.14.0 beside rhel-d0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
red
expect version 4.14.0 rhel-d1
expect health rhel-d1 unhealthy unhealthy
expect backups health.json

boot rhel-d1 4.14.0 beside rhel-d0
pre-run -> 0 always-unhealthy-first
    | rhel-d1 was never healthy and nothing ran before it: start clean
    | - move-aside as unhealthy__rhel-d1
expect data none
run etcd=one-again -> 0
red

# rhel-d0 boots, and the agent there stages rhel-d2.
boot rhel-d2 4.14.0 beside rhel-d0
expect version 4.14.0 rhel-d1
expect health rhel-d1 unhealthy unhealthy
pre-run -> 0 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1 (boot <n>), which was not healthy: start clean
    | - move-aside as unhealthy__rhel-d1__2
expect data none
expect version none
run etcd=two -> 0
expect version 4.14.0 rhel-d2
expect health rhel-d2 unknown unknown; rhel-d1 unhealthy unhealthy
red
expect health rhel-d2 unhealthy unhealthy; rhel-d1 unhealthy unhealthy

# Greenboot's reboot: the one before is not on this host.
boot rhel-d2 4.14.0 beside rhel-d0
pre-run -> 0 always-unhealthy-leftover
    | rhel-d2 was never healthy, and rhel-d1 before it is gone from the host: start clean
    | - move-aside as unhealthy__rhel-d2
expect data none
run etcd=two-again -> 0
red

boot rhel-d3 4.14.0 beside rhel-d0
expect version 4.14.0 rhel-d2
pre-run -> 0 staged-over-unhealthy
    | rhel-d3 was staged over the data of rhel-d2 (boot <n>), which was not healthy: start clean
    | - move-aside as unhealthy__rhel-d2__2
    | - discard unhealthy__rhel-d1: more data was moved aside than the limits allow
expect data none
run etcd=three -> 0
expect version 4.14.0 rhel-d3
expect health rhel-d3 unknown unknown; rhel-d2 unhealthy unhealthy; rhel-d1 unhealthy unhealthy
green
expect data etcd=three
# At most three of what was moved aside are kept; the oldest went.
expect backups health.json unhealthy__rhel-d1__2/ unhealthy__rhel-d2/ unhealthy__rhel-d2__2/
expect copy unhealthy__rhel-d1__2 etcd=one-again
expect copy unhealthy__rhel-d2 etcd=two
expect copy unhealthy__rhel-d2__2 etcd=two-again
