# Backup exists, restore fails, on the only deployment: what the administrator asked for fails with a code of its own,
# the data is as it was before; mended, it works.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run etcd=broken -> 0
red
guard backups restore --next-boot -> 0
expect backups health.json next-boot.json rhel-d1/

boot rhel-d1 4.14.0
sh mv "$BACKUPS/rhel-d1/etcd" "$SCRATCH/lost"
pre-run -> 6 requested
    | an administrator asked for copy <n> of rhel-d1
    | - pin-request: what was asked for is copy <n>
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d1
    | - clear-request: the restore that was asked for is done
    | error: copy <n> is not what it was when it was made: 3 entries instead of 4
    | hint: `holdfast guard backups verify 3` says what is wrong, `holdfast guard backups list` shows what else there is
run -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
red
expect version 4.14.0 rhel-d1
expect data etcd=broken
expect health rhel-d1 unhealthy unhealthy
expect backups health.json next-boot.json rhel-d1/

sh mv "$SCRATCH/lost" "$BACKUPS/rhel-d1/etcd"
boot rhel-d1 4.14.0
pre-run -> 0 requested
    | an administrator asked for copy <n> of rhel-d1
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d1
    | - clear-request: the restore that was asked for is done
expect data etcd=one
expect backups health.json rhel-d1/ unhealthy__rhel-d1/
run -> 0
green
