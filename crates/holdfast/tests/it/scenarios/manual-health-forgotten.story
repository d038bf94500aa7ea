# The administrator mended things and forgot to say so before staging another deployment: the data is kept under
# `unhealthy__`, and can be had back with one command.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
red
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1 (boot <n>), which was not healthy: start clean
    | - move-aside as unhealthy__rhel-d1
expect data none
expect version none
expect backups health.json unhealthy__rhel-d1/
expect copy unhealthy__rhel-d1 etcd=one of 4.14.0 rhel-d1

guard backups restore unhealthy__rhel-d1 -> 0
    | branch   requested
    | reason   an administrator asked for copy <n> of rhel-d1
    |   1. record-boot        every boot is recorded before anything else happens
    |   2. restore            an administrator asked for copy <n> of rhel-d1
    | the workload may start
expect data etcd=one
expect version 4.14.0 rhel-d1
run etcd=two -> 0
green
expect version 4.14.0 rhel-d2
