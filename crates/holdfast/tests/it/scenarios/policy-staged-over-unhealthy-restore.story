# staged-over-unhealthy = restore-last-healthy: a new deployment over unhealthy data gets the newest data that was healthy.

set staged-over-unhealthy restore-last-healthy
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
boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 0 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1 (boot <n>), which was not healthy: back to copy <n> of rhel-d1
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d1
    | - migrate: the data is of 4.14.0, the program is 4.15.0: migrate, starting from backup <n>
expect data etcd=one
expect version 4.15.0 rhel-d2
expect copy unhealthy__rhel-d1 etcd=two of 4.14.0 rhel-d1
run -> 0
green
