# Tree: no verdict (power loss before green or red), the same deployment boots again: go on with the data as it is.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
boot rhel-d1 4.14.0
pre-run -> 0 owner-unknown-same
    | the data of rhel-d1 (boot <n>) got no verdict, and the same deployment boots again
expect data etcd=one
expect backups health.json
run etcd=two -> 0
green
