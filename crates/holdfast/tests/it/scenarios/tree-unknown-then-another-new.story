# Tree: no verdict, and a new deployment boots: it counts as unhealthy. The data is moved aside, never dropped.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1 (boot <n>), which was not healthy: start clean
    | - move-aside as unhealthy__rhel-d1
expect data none
expect backups health.json unhealthy__rhel-d1/
expect copy unhealthy__rhel-d1 etcd=one of 4.14.0 rhel-d1
