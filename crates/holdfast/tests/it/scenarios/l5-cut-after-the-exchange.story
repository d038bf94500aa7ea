# L5, one step later: the power fails right after the trees changed places. The restore is finished, not repeated.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | - migrate: the data is of 4.14.0, the program is 4.15.0: migrate, starting from backup <n>
run etcd=two -> 0
red
boot rhel-d1 4.14.0 beside rhel-d2
cut renameat2 incoming-: pre-run
expect data etcd=one
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0
    | the data of rhel-d1 (boot <n>) was healthy, and copy <n> holds it
    | - recover: it was interrupted after its point of no return: finish it
expect data etcd=one
expect version 4.14.0 rhel-d1
expect copy unhealthy__rhel-d2 etcd=two of 4.15.0 rhel-d2
run -> 0
green
