# `backups restore --next-boot`: done by the next pre-run, once; `--cancel` takes it back.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run etcd=two -> 0
green
guard backups restore --next-boot rhel-d9 -> 3
    | error: a restore of a backup of rhel-d9 was asked for, and there is none
    | hint: `holdfast guard backups list` shows what there is; `holdfast guard backups restore --cancel` takes the request back
guard backups restore --cancel -> 3
    | error: no restore was asked for
    | hint: `holdfast guard status` shows what the next boot will do
guard backups restore --next-boot rhel-d1 -> 0
expect data etcd=two
expect backups health.json next-boot.json rhel-d1/
guard backups restore --cancel -> 0
expect backups health.json rhel-d1/
boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run etcd=three -> 0
green

# A number, so that it is that very copy whatever is backed up until then.
guard backups restore --next-boot 3 -> 0
boot rhel-d1 4.14.0
pre-run -> 0 requested
    | an administrator asked for copy <n> of rhel-d1
    | - backup as rhel-d1: the data of rhel-d1 (boot <n>) is good data: keep it before it is replaced
    | - restore from .generations/rhel-d1/3 after moving the data to replaced__rhel-d1
    | - clear-request: the restore that was asked for is done
expect data etcd=one
expect backups health.json replaced__rhel-d1/ rhel-d1/
expect copy rhel-d1 etcd=three
run etcd=four -> 0
green
boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect data etcd=four
