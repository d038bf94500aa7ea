# Manual rollback, as the document's summary has it: restore on next boot, stage the deployment that ran before, reboot.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run etcd=two -> 0
green
guard backups restore --next-boot -> 0
guard status -> 0
    | booted         rhel-d2
    | program        4.14.0
    | data           ok
    | data version   4.14.0
    | data owner     rhel-d2
    | pre-run        ready
    | copies         1
    | next boot      restores booted
    |
    | BOOT   DEPLOYMENT   PRE-RUN   RAN   WORKLOAD   SYSTEM    AT
    | 2      rhel-d2      ready     yes   healthy    healthy   <time>
    | 1      rhel-d1      ready     yes   healthy    healthy   <time>
expect said restores booted

boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 requested
    | an administrator asked for copy <n> of rhel-d1
    | - pin-request: what was asked for is copy <n>
    | - backup as rhel-d2: the data of rhel-d2 (boot <n>) is good data: keep it before it is replaced
    | - restore from rhel-d1 after moving the data to replaced__rhel-d2
    | - clear-request: the restore that was asked for is done
expect data etcd=one
expect version 4.14.0 rhel-d1
expect copy rhel-d2 etcd=two of 4.14.0 rhel-d2
run etcd=three -> 0
green
