# Tree: this one was unhealthy when it ran last, another has taken the data over and was unhealthy too; the last good
# data of this one comes back.

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
red
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 rolled-back-to-unhealthy
    | neither the data of rhel-d2 (boot <n>) nor rhel-d1 was healthy last: back to the last good data of rhel-d1
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2
expect data etcd=one
expect version 4.14.0 rhel-d1
expect backups health.json rhel-d1/ unhealthy__rhel-d1/ unhealthy__rhel-d2/
expect copy unhealthy__rhel-d1 etcd=two
expect copy unhealthy__rhel-d2 etcd=three
run -> 0
green
