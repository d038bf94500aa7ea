# Tree: the other was unhealthy, this one was healthy, its backup is gone and the data is not its own: "bug or user
# interference". Abort, and say how to go on.

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
sh rm -r "$BACKUPS/rhel-d1"
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 4 rolled-back-to-healthy
    | the data of rhel-d2 (boot <n>) was not healthy, rhel-d1 was: its own data comes back
    | error: a healthy backup of rhel-d1 is needed and does not exist; the data was left as it is
    | hint: `holdfast guard backups list` shows what there is and `holdfast guard backups restore N` brings it back; if the data in place is good, `holdfast guard mark-deploy-as-healthy ID --reason TEXT`
expect data etcd=two
expect version 4.14.0 rhel-d2
run -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
red
guard mark-deploy-as-healthy rhel-d2 --reason "looked at it" -> 0
    | rhel-d2 is marked healthy (boot <n>)
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 owner-healthy
    | the data of rhel-d2 (boot <n>) was healthy: back it up
    | - backup as rhel-d2
expect data etcd=two
