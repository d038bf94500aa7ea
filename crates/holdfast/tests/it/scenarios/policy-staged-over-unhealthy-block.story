# staged-over-unhealthy = block: somebody has to say what becomes of the data.

set staged-over-unhealthy block
boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
red
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 4 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1 (boot <n>), which was not healthy
    | error: rhel-d2 was staged over rhel-d1, which was not healthy
    | hint: if the data of rhel-d1 is good, `holdfast guard mark-deploy-as-healthy rhel-d1 --reason TEXT`; `holdfast guard backups restore N` brings back a copy; or move the data directory away to start clean
expect data etcd=one
run -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
expect backups health.json
guard mark-deploy-as-healthy rhel-d1 --reason "was fine" -> 0
    | rhel-d1 is marked healthy (boot <n>)
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect data etcd=one
expect copy rhel-d1 etcd=one
run -> 0
green
