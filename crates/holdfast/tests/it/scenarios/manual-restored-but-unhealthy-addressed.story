# Backup exists, restore succeeds, but the system is unhealthy; the administrator brings the backup back, which is the
# explicit way, and reboots.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run etcd=broken -> 0
red
expect health rhel-d1 unhealthy unhealthy

guard backups restore -> 0
    | branch   requested
    | reason   an administrator asked for copy <n> of rhel-d1
    |   1. record-boot        every boot is recorded before anything else happens
    |   2. restore            an administrator asked for copy <n> of rhel-d1
    | the workload may start
expect data etcd=one
expect version 4.14.0 rhel-d1
expect backups health.json rhel-d1/ unhealthy__rhel-d1/
expect copy unhealthy__rhel-d1 etcd=broken

boot rhel-d1 4.14.0
pre-run -> 0
    | the data of rhel-d1 (boot <n>) was healthy, and copy <n> holds it
expect data etcd=one
run etcd=two -> 0
green
expect health rhel-d1 healthy healthy
