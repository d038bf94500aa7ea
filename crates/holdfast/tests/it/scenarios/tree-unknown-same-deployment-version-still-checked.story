# Tree: no verdict, the same deployment; the version is checked all the same (here somebody has changed the program).

boot rhel-d1 4.15.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
boot rhel-d1 4.14.0
pre-run -> 4 owner-unknown-same
    | the data of rhel-d1 (boot <n>) got no verdict, and the same deployment boots again
    | error: the data is of 4.15.0, the program is 4.14.0: an older program can't read newer data
    | hint: boot a deployment with 4.15.0 or newer, or bring back data that fits: `holdfast guard backups list`, then `holdfast guard backups restore N`
expect data etcd=one
expect version 4.15.0 rhel-d1
