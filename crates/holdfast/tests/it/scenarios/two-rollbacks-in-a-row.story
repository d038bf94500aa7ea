# Restored by a rollback, cut off before the workload ran, and restored again in the next boot.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | - migrate: the data is of 4.14.0, the program is 4.15.0: migrate, starting from backup <n>
run etcd=two -> 0
red
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 rolled-back-to-healthy
    | the data of rhel-d2 (boot <n>) was not healthy, rhel-d1 was: its own data comes back
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0
    | the data of rhel-d1 (boot <n>) was healthy, and copy <n> holds it
expect data etcd=one
expect version 4.14.0 rhel-d1
expect backups health.json rhel-d1/ unhealthy__rhel-d2/
run -> 0
green
