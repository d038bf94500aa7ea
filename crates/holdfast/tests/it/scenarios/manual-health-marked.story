# Addressing the workload's health: the administrator marks the deployment as healthy before booting another one.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
red
guard mark-deploy-as-healthy -> 2
    | error: the following required arguments were not provided:
guard mark-deploy-as-healthy rhel-d9 --reason "never was here" -> 3
    | error: rhel-d9 has never run the workload here
    | hint: `holdfast guard status` lists the deployments on record
guard mark-deploy-as-healthy --reason "the app was at fault" -> 0
    | rhel-d1 is marked healthy (boot <n>)
expect health rhel-d1 healthy healthy
guard history --limit 1 -> 0
    | WHEN                  BOOT   DEPLOYMENT   STEP                     OUTCOME   REASON
    | <time>   1      rhel-d1      mark-deploy-as-healthy   healthy   rhel-d1: the app was at fault
expect said the app was at fault

boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect copy rhel-d1 etcd=one of 4.14.0 rhel-d1
expect data etcd=one
run etcd=two -> 0
green
