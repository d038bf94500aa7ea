# `holdfast admin …` and the bare verbs do the same as `holdfast guard …`, and facts may come from the environment.

boot rhel-d1 4.14.0
holdfast admin pre-run --dry-run -> 0
    | branch   first-boot
    | reason   there is no data and no backup: a first boot
    |   1. record-boot        every boot is recorded before anything else happens
    | the workload may start
expect backups none
holdfast pre-run -> 0
    | branch   first-boot
    | reason   there is no data and no backup: a first boot
    |   1. record-boot        every boot is recorded before anything else happens
    | the workload may start
holdfast run -- /bin/true -> 0
holdfast healthcheck --timeout 20s -> 0
    | CHECK   KIND   NEED   OUTCOME   DETAIL
    | healthy
holdfast admin persist-system-health --unhealthy -> 0
expect health rhel-d1 healthy unhealthy
holdfast admin mark-deploy-as-healthy --reason "looked at it" -> 0
    | rhel-d1 is marked healthy (boot <n>)
expect health rhel-d1 healthy healthy
holdfast persist-system-health --healthy -> 0
expect version 4.14.0 rhel-d1
holdfast status -> 0
    | booted         rhel-d1
    | program        4.14.0
    | data           ok
    | data version   4.14.0
    | data owner     rhel-d1
    | pre-run        ready
    | copies         0
    |
    | BOOT   DEPLOYMENT   PRE-RUN   RAN   WORKLOAD   SYSTEM    AT
    | 1      rhel-d1      ready     yes   healthy    healthy   <time>
