# The same gap, and nothing healthy was ever kept: blocked, with the reason and the ways out.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1 (boot <n>), which was not healthy: start clean
    | - move-aside as unhealthy__rhel-d1
run etcd=two -> 0
red
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 4 rolled-back-to-unknown
    | the data of rhel-d2 (boot <n>) was not healthy, and rhel-d1 got no verdict when it ran last
    | error: a healthy backup that this version can read is needed and does not exist; the data was left as it is
    | hint: `holdfast guard backups list` shows what there is and `holdfast guard backups restore N` brings it back; if the data in place is good, `holdfast guard mark-deploy-as-healthy ID --reason TEXT`
expect data etcd=two
guard backups restore unhealthy__rhel-d1 -> 0
    | branch   requested
    | reason   an administrator asked for copy <n> of rhel-d1
    |   1. record-boot        every boot is recorded before anything else happens
    |   2. restore            an administrator asked for copy <n> of rhel-d1
    | the workload may start
expect data etcd=one
pre-run -> 0
    | this boot was prepared before; what follows is checked again
run -> 0
green
