# Backup exists, restore succeeds, but the system is unhealthy for another reason; the administrator addresses that,
# says that the data is good, and reboots: it is backed up.

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
red-elsewhere
expect health rhel-d1 healthy unhealthy
guard mark-deploy-as-healthy rhel-d1 --reason "the fan was broken" -> 0
    | rhel-d1 is marked healthy (boot <n>)
boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect copy rhel-d1 etcd=two
run etcd=three -> 0
green
