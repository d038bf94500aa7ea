# Marking a deployment whose data is gone: there is nothing to vouch for, and that is said. While a copy exists, it can be
# marked, from whichever deployment runs.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
red
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1 (boot <n>), which was not healthy: start clean
    | - move-aside as unhealthy__rhel-d1
run etcd=two -> 0
red
guard mark-deploy-as-healthy rhel-d1 --reason "it was the cable" -> 0
    | rhel-d1 is marked healthy (boot <n>)
expect health rhel-d2 unhealthy unhealthy; rhel-d1 healthy healthy
guard backups list -> 0
    | N   NAME                 VERSION   HEALTHY   BOOT   MADE
    | 3   unhealthy__rhel-d1   4.14.0    yes       1      <time>
sh rm -r "$BACKUPS/unhealthy__rhel-d1"
guard mark-deploy-as-healthy rhel-d1 --reason "too late" -> 4
    | error: the data that rhel-d1 left when it ran last (boot <n>) is gone: there is nothing to vouch for
    | hint: `holdfast guard backups list` shows whose data there is
expect data etcd=two
