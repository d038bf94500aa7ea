# Reboot: second boot, backup succeeds, but the system is unhealthy. Greenboot does not reboot the only deployment.

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
expect version 4.14.0 rhel-d1
expect data etcd=two
expect health rhel-d1 unhealthy unhealthy
expect backups health.json rhel-d1/
expect copy rhel-d1 etcd=one of 4.14.0 rhel-d1
