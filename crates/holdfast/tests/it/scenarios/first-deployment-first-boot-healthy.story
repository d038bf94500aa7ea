# First deployment, first boot: system and workload are healthy.

boot rhel-d1 4.14.0
expect version none
expect backups none
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one certs/ca=first -> 0
expect version 4.14.0 rhel-d1
expect health rhel-d1 unknown unknown
expect backups health.json
healthcheck good -> 0
expect health rhel-d1 healthy unknown
system healthy -> 0
expect health rhel-d1 healthy healthy
expect version 4.14.0 rhel-d1
expect data etcd=one certs/ca=first
expect backups health.json
