# The first deployment is unhealthy beyond recovery; the administrator removes both directories and stages another.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
red
sh rm -r "$DATA" "$BACKUPS"
boot rhel-d2 4.14.1 beside rhel-d1
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=two -> 0
green
expect version 4.14.1 rhel-d2
expect health rhel-d2 healthy healthy
expect backups health.json
