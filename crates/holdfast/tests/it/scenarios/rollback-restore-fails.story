# Rollback to the first deployment, and the restore fails: the data stays as it was, the workload does not start.
# Then "Backup exists, restore fails": the cause is removed and the device rebooted.

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
red
expect version 4.14.0 rhel-d2
expect backups health.json rhel-d1/

boot rhel-d1 4.14.0 beside rhel-d2
sh mv "$BACKUPS/rhel-d1/etcd" "$SCRATCH/lost"
pre-run -> 6 rolled-back-to-healthy
    | the data of rhel-d2 (boot <n>) was not healthy, rhel-d1 was: its own data comes back
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2
    | error: copy <n> is not what it was when it was made: 3 entries instead of 4
    | hint: `holdfast guard backups verify 3` says what is wrong, `holdfast guard backups list` shows what else there is
run etcd=three -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
red
expect version 4.14.0 rhel-d2
expect data etcd=two
expect health rhel-d1 unhealthy unhealthy; rhel-d2 unhealthy unhealthy
expect backups health.json rhel-d1/
guard backups verify rhel-d1 -> 8
    | N   DEPLOYMENT   DEPTH       RESULT
    | 3   rhel-d1      structure   2 problems: the directory itself: with another time; etcd: missing
    | error: 1 of 1 copies are not what they were
    | hint: mend them, or bring back another one: `holdfast guard backups list`

sh mv "$SCRATCH/lost" "$BACKUPS/rhel-d1/etcd"
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 rolled-back-to-healthy
    | the data of rhel-d2 (boot <n>) was not healthy, rhel-d1 was: its own data comes back
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2
expect version 4.14.0 rhel-d1
expect data etcd=one
expect backups health.json rhel-d1/ unhealthy__rhel-d2/
run -> 0
green
