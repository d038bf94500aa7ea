# Rollback on demand between deployments with the same version of the workload: the data stays, newer as it is.

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
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 owner-healthy
    | the data of rhel-d2 (boot <n>) was healthy: back it up
    | - backup as rhel-d2
expect data etcd=two
expect copy rhel-d1 etcd=one of 4.14.0 rhel-d1
expect copy rhel-d2 etcd=two of 4.14.0 rhel-d2
run etcd=three -> 0
expect version 4.14.0 rhel-d1
green
