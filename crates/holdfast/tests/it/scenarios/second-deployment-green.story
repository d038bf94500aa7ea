# Second deployment staged; backup succeeds, nothing changed in the workload, the system is healthy.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green

boot rhel-d2 4.14.0 beside rhel-d1
expect version 4.14.0 rhel-d1
expect health rhel-d1 healthy healthy
expect backups health.json
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect copy rhel-d1 etcd=one of 4.14.0 rhel-d1
run etcd=two -> 0
expect version 4.14.0 rhel-d2
expect health rhel-d2 unknown unknown; rhel-d1 healthy healthy
green
expect version 4.14.0 rhel-d2
expect data etcd=two
expect health rhel-d2 healthy healthy; rhel-d1 healthy healthy
expect backups health.json rhel-d1/
expect copy rhel-d1 etcd=one of 4.14.0 rhel-d1
