# staged-over-unhealthy = keep: a new deployment takes the data as it is, and its version is checked.

set staged-over-unhealthy keep
boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
red
boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 0 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1 (boot <n>), which was not healthy: kept, as configured
    | - backup as rhel-d1: a migration starts from a backup
    | - migrate: the data is of 4.14.0, the program is 4.15.0: migrate, starting from backup <n>
expect data etcd=one
expect version 4.15.0 rhel-d2
expect backups health.json rhel-d1/
run etcd=two -> 0
green
