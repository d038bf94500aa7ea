# Two upgrades, each vouched for, then the rollback of the second: the data of the version between comes back.

set migration.command ["/bin/sh","-c","echo $2 > $0/schema"]
boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one schema=4.14.0 -> 0
green
boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | - migrate: the data is of 4.14.0, the program is 4.15.0: migrate, starting from backup <n>
run etcd=two -> 0
green
boot rhel-d3 4.16.0 beside rhel-d2
pre-run -> 0 owner-healthy
    | the data of rhel-d2 (boot <n>) was healthy: back it up
    | - backup as rhel-d2
    | - migrate: the data is of 4.15.0, the program is 4.16.0: migrate, starting from backup <n>
expect data etcd=two schema=4.16.0
run etcd=three -> 0
red
boot rhel-d2 4.15.0 beside rhel-d3
pre-run -> 0 rolled-back-to-healthy
    | the data of rhel-d3 (boot <n>) was not healthy, rhel-d2 was: its own data comes back
    | - restore from rhel-d2 after moving the data to unhealthy__rhel-d3
expect data etcd=two schema=4.15.0
expect version 4.15.0 rhel-d2
run -> 0
green
expect health rhel-d2 healthy healthy; rhel-d3 unhealthy unhealthy; rhel-d1 healthy healthy
