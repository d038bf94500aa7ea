# L3: green; the service restarts in the same boot; another deployment boots. As written, the restart sets the verdict back
# to unknown, and healthy data is deleted without any fault. Here a verdict is never taken back within a boot.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
run etcd=one-more -> 0
expect health rhel-d1 healthy healthy
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect data etcd=one-more
expect copy rhel-d1 etcd=one-more
