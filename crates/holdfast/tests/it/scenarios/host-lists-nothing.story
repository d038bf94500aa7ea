# The host says what is booted and lists nothing: nothing is pruned because of it, and nothing is started clean.

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
boot rhel-d3 4.14.0 beside rhel-d2
pre-run -> 0 owner-healthy
    | the data of rhel-d2 (boot <n>) was healthy: back it up
    | - backup as rhel-d2
run etcd=three -> 0
red
boot rhel-d3 4.14.0 unlisted
pre-run -> 0 always-unhealthy-retry
    | rhel-d3 was never healthy: try again from the healthy data of rhel-d2, as at its first boot
    | - restore from rhel-d2 after moving the data to unhealthy__rhel-d3
expect data etcd=two
run etcd=four -> 0
green
boot rhel-d3 4.14.0 unlisted
pre-run -> 0 owner-healthy
    | the data of rhel-d3 (boot <n>) was healthy: back it up
    | - backup as rhel-d3
run -> 0
green
expect backups health.json rhel-d1/ rhel-d2/ rhel-d3/ unhealthy__rhel-d3/
expect copy rhel-d1 etcd=one
guard backups prune --dry-run -> 0
    | nothing to remove
