# Addressing the workload's health: the administrator mends the cause and has greenboot check again.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
red
expect health rhel-d1 unhealthy unhealthy
green
expect health rhel-d1 healthy healthy

boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect copy rhel-d1 etcd=one
expect data etcd=one
