# Rollback on demand: both deployments are healthy, the second has no backup yet. It gets one, then the first gets its
# own, older data back.

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
expect version 4.15.0 rhel-d2
run etcd=two -> 0
green
expect backups health.json rhel-d1/

boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 rollback-on-demand
    | rhel-d1 was healthy with older data than the data of rhel-d2 (boot <n>): a rollback on demand, so its own data comes back
    | - backup as rhel-d2: the data of rhel-d2 (boot <n>) was healthy: back it up
    | - restore from rhel-d1 after moving the data to replaced__rhel-d2
expect version 4.14.0 rhel-d1
expect data etcd=one
expect copy rhel-d2 etcd=two of 4.15.0 rhel-d2
expect copy rhel-d1 etcd=one of 4.14.0 rhel-d1
run etcd=three -> 0
green
expect backups health.json rhel-d1/ rhel-d2/
