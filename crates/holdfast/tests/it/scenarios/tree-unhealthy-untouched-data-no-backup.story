# Tree: as before, with no healthy backup to set apart: the data as it is gets backed up.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
red
set staged-over-unhealthy block
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 4 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1 (boot <n>), which was not healthy
    | error: rhel-d2 was staged over rhel-d1, which was not healthy
    | hint: if the data of rhel-d1 is good, `holdfast guard mark-deploy-as-healthy rhel-d1 --reason TEXT`; `holdfast guard backups restore N` brings back a copy; or move the data directory away to start clean
red
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 unhealthy-untouched
    | rhel-d1 was unhealthy, another deployment was tried and left the data alone: keep the last healthy backup apart, back the data up as it is, and try again
    | - backup as rhel-d1
expect data etcd=one
expect backups health.json rhel-d1/
expect copy rhel-d1 etcd=one
