# Tree: this one was unhealthy, another was tried and left the data alone (it was refused), and now this one is back:
# its healthy backup is set apart as last_healthy__, the data as it is becomes the backup, and it may try again.

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
set staged-over-unhealthy block
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 4 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1 (boot <n>), which was not healthy
    | error: rhel-d2 was staged over rhel-d1, which was not healthy
    | hint: if the data of rhel-d1 is good, `holdfast guard mark-deploy-as-healthy rhel-d1 --reason TEXT`; `holdfast guard backups restore N` brings back a copy; or move the data directory away to start clean
red
expect version 4.14.0 rhel-d1
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 unhealthy-untouched
    | rhel-d1 was unhealthy, another deployment was tried and left the data alone: keep the last healthy backup apart, back the data up as it is, and try again
    | - backup as rhel-d1
expect data etcd=two
expect version 4.14.0 rhel-d1
expect backups health.json last_healthy__rhel-d1/ rhel-d1/
expect copy last_healthy__rhel-d1 etcd=one of 4.14.0 rhel-d1
expect copy rhel-d1 etcd=two of 4.14.0 rhel-d1
run etcd=three -> 0
green
guard backups restore last_healthy__rhel-d1 -> 0
    | branch   requested
    | reason   an administrator asked for copy <n> of rhel-d1
    |   1. record-boot        every boot is recorded before anything else happens
    |   2. backup             the data of rhel-d1 (boot <n>) is good data: keep it before it is replaced
    |   3. restore            an administrator asked for copy <n> of rhel-d1
    | the workload may start
expect data etcd=one
