# pre-run again in the same boot, before and after the workload ran: nothing is done twice.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
pre-run -> 0 already-prepared
    | this boot was prepared before; what follows is checked again
run etcd=one -> 0
green
boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | - migrate: the data is of 4.14.0, the program is 4.15.0: migrate, starting from backup <n>
expect version 4.15.0 rhel-d2
pre-run -> 0 already-prepared
    | this boot was prepared before; what follows is checked again
expect copy rhel-d1 etcd=one of 4.14.0 rhel-d1
run etcd=two -> 0
pre-run -> 0 already-prepared
    | this boot was prepared before; what follows is checked again
expect data etcd=two
expect health rhel-d2 unknown unknown; rhel-d1 healthy healthy
red
pre-run -> 0 already-prepared
    | this boot was prepared before; what follows is checked again
expect data etcd=two
expect backups health.json rhel-d1/
