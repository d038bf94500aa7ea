# `.1` is not `.10`: names are compared whole.

boot rhel-abc.1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-abc.10 4.14.0 beside rhel-abc.1
pre-run -> 0 owner-healthy
    | the data of rhel-abc.1 (boot <n>) was healthy: back it up
    | - backup as rhel-abc.1
run etcd=ten -> 0
green
boot rhel-abc.10 4.14.0 beside rhel-abc.1
pre-run -> 0 owner-healthy
    | the data of rhel-abc.10 (boot <n>) was healthy: back it up
    | - backup as rhel-abc.10
expect backups health.json rhel-abc.1/ rhel-abc.10/
expect copy rhel-abc.1 etcd=one of 4.14.0 rhel-abc.1
expect copy rhel-abc.10 etcd=ten of 4.14.0 rhel-abc.10
guard backups restore rhel-abc.1 -> 0
    | branch   requested
    | reason   an administrator asked for copy <n> of rhel-abc.1
    |   1. record-boot        every boot is recorded before anything else happens
    |   2. restore            an administrator asked for copy <n> of rhel-abc.1
    | the workload may start
expect data etcd=one
guard backups restore rhel-abc. -> 3
    | error: a restore of a backup of rhel-abc. was asked for, and there is none
    | hint: `holdfast guard backups list` shows what there is; `holdfast guard backups restore --cancel` takes the request back
