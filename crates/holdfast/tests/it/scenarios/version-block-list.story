# Versions: a version on the program's block list is refused, whatever the skew; others of its stream are not.

set blocked-versions ["4.14.3"]
boot rhel-d1 4.14.3
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 4 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | error: data of 4.14.3 is on the list of versions that 4.15.0 must not take over
    | hint: boot the deployment that made the data and go through a version in between, or bring back other data: `holdfast guard backups list`; the data stays at 4.14.3
expect said list of versions
expect version 4.14.3 rhel-d1
boot rhel-d3 4.14.4 beside rhel-d1
pre-run -> 4 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy, and copy <n> holds it
    | error: data of 4.14.3 is on the list of versions that 4.14.4 must not take over
    | hint: boot the deployment that made the data and go through a version in between, or bring back other data: `holdfast guard backups list`; the data stays at 4.14.3
boot rhel-d1 4.14.3
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy, and copy <n> holds it
run -> 0
green
