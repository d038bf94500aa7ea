# Tree: neither was ever healthy, and the data is the other's: start clean.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
red
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1 (boot <n>), which was not healthy: start clean
    | - move-aside as unhealthy__rhel-d1
run etcd=two -> 0
red
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 rolled-back-to-unhealthy
    | neither the data of rhel-d2 (boot <n>) nor rhel-d1 was ever healthy: start clean
    | - move-aside as unhealthy__rhel-d2
expect data none
expect version none
expect backups health.json unhealthy__rhel-d1/ unhealthy__rhel-d2/
expect copy unhealthy__rhel-d1 etcd=one
expect copy unhealthy__rhel-d2 etcd=two
