# Tree: never healthy, the earlier one was, and its backup is gone: "bug or user's interference". Block.

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
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 4 always-unhealthy-retry
    | rhel-d2 was never healthy: try again from the healthy data of rhel-d1, as at its first boot
    | error: a healthy backup of rhel-d1 is needed and does not exist; the data was left as it is
    | hint: `holdfast guard backups list` shows what there is and `holdfast guard backups restore N` brings it back; if the data in place is good, `holdfast guard mark-deploy-as-healthy ID --reason TEXT`
expect data etcd=two
run -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
