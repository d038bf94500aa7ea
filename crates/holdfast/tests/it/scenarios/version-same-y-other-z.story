# Versions: another Z needs no migration, newer or older; `run` rewrites the record.

set migration.command ["/bin/false"]
boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d2 4.14.7 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect version 4.14.0 rhel-d1
run -> 0
expect version 4.14.7 rhel-d2
green
boot rhel-d3 4.14.2 beside rhel-d2
pre-run -> 0 owner-healthy
    | the data of rhel-d2 (boot <n>) was healthy: back it up
    | - backup as rhel-d2
run -> 0
expect version 4.14.2 rhel-d3
green
