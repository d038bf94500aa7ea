# Tree: never healthy, and staged over one that was not either (possible where the policy keeps the data): block.

set staged-over-unhealthy keep
boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
red
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1 (boot <n>), which was not healthy: kept, as configured
expect data etcd=one
run etcd=two -> 0
red
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 4 always-unhealthy-over-unhealthy
    | rhel-d2 was never healthy, nor was rhel-d1, over which it was staged
    | error: rhel-d2 was staged over rhel-d1, which was not healthy
    | hint: if the data of rhel-d1 is good, `holdfast guard mark-deploy-as-healthy rhel-d1 --reason TEXT`; `holdfast guard backups restore N` brings back a copy; or move the data directory away to start clean
expect data etcd=two
run -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
