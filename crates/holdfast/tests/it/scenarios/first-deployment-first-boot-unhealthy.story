# First deployment, first boot: system or workload are unhealthy. There is nothing to roll back to: manual intervention.
# Here the administrator only reboots: the deployment was never healthy, so it tries again from a clean state, and
# what the unhealthy boot left is kept.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=bad -> 0
healthcheck bad -> 12
expect health rhel-d1 unhealthy unknown
system unhealthy -> 0
expect version 4.14.0 rhel-d1
expect health rhel-d1 unhealthy unhealthy
expect backups health.json

boot rhel-d1 4.14.0
pre-run -> 0 always-unhealthy-first
    | rhel-d1 was never healthy and nothing ran before it: start clean
    | - move-aside as unhealthy__rhel-d1
expect data none
expect backups health.json unhealthy__rhel-d1/
expect copy unhealthy__rhel-d1 etcd=bad of 4.14.0 rhel-d1
run etcd=good -> 0
green
expect data etcd=good
expect health rhel-d1 healthy healthy
