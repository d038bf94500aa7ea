# Versions: an older program is refused newer data, and the data stays; so is one of an older major version.

boot rhel-d1 4.15.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d2 4.14.9 beside rhel-d1
pre-run -> 4 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | error: the data is of 4.15.0, the program is 4.14.9: an older program can't read newer data
    | hint: boot a deployment with 4.15.0 or newer, or bring back data that fits: `holdfast guard backups list`, then `holdfast guard backups restore N`
expect version 4.15.0 rhel-d1
run -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
boot rhel-d3 3.99.0 beside rhel-d1
pre-run -> 4
    | the data of rhel-d1 (boot <n>) was healthy, and copy <n> holds it
    | error: the data is of 4.15.0, the program is 3.99.0: an older program can't read newer data
    | hint: boot a deployment with 4.15.0 or newer, or bring back data that fits: `holdfast guard backups list`, then `holdfast guard backups restore N`
boot rhel-d4 5.0.0 beside rhel-d1
pre-run -> 4
    | the data of rhel-d1 (boot <n>) was healthy, and copy <n> holds it
    | error: the program 5.0.0 is of another major version than the data (4.15.0)
    | hint: boot the deployment that made the data and go through a version in between, or bring back other data: `holdfast guard backups list`; the data stays at 4.15.0
expect data etcd=one
expect version 4.15.0 rhel-d1
boot rhel-d1 4.15.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy, and copy <n> holds it
expect data etcd=one
