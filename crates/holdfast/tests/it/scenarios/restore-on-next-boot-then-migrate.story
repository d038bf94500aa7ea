# A restore on next boot of older data, and a newer program boots: it is restored, then migrated from there.

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
green
guard backups restore --next-boot rhel-d1 -> 0
boot rhel-d2 4.15.0 beside rhel-d1
set migration.command ["/bin/sh","-c","echo 4.15 > $0/schema"]
pre-run -> 0 requested
    | an administrator asked for copy <n> of rhel-d1
    | - pin-request: what was asked for is copy <n>
    | - backup as rhel-d2: the data of rhel-d2 (boot <n>) is good data: keep it before it is replaced
    | - restore from rhel-d1 after moving the data to replaced__rhel-d2
    | - clear-request: the restore that was asked for is done
    | - migrate: the data is of 4.14.0, the program is 4.15.0: migrate, starting from backup <n>
expect data etcd=one schema=4.15
expect version 4.15.0 rhel-d2
expect copy rhel-d2 etcd=two of 4.15.0 rhel-d2
expect copy rhel-d1 etcd=one of 4.14.0 rhel-d1
run -> 0
green
