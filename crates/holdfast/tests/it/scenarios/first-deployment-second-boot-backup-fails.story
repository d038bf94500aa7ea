# First deployment, second boot (reboot): the backup fails. The workload does not start, nothing is lost, and once the
# cause is gone the same boot, or the next one, goes on.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green

boot rhel-d1 4.14.0
sh mkdir "$BACKUPS/rhel-d1"; echo mine > "$BACKUPS/rhel-d1/file"
pre-run -> 5 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | error: $BACKUPS/rhel-d1 is in the way: guard did not make it
    | hint: move $BACKUPS/rhel-d1 away, or let guard take it over: `holdfast guard backups adopt rhel-d1`
expect said in the way
expect version 4.14.0 rhel-d1
run etcd=two -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
red
expect data etcd=one
expect version 4.14.0 rhel-d1
expect health rhel-d1 unhealthy unhealthy
expect backups health.json rhel-d1/
expect copy rhel-d1 file=mine

# The document stops here: "manual intervention". The hint says how.
sh mv "$BACKUPS/rhel-d1" "$SCRATCH/mine"
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect copy rhel-d1 etcd=one of 4.14.0 rhel-d1
run etcd=two -> 0
green
expect data etcd=two
expect health rhel-d1 healthy healthy
expect backups health.json rhel-d1/
