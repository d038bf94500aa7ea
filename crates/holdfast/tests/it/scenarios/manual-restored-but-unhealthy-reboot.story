# Backup exists, restore succeeds, but the system is unhealthy; the administrator simply reboots. The tree says to leave
# the data alone (two workflows say restore): it is left alone.

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
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 rolled-back-to-healthy
    | the data of rhel-d2 (boot <n>) was not healthy, rhel-d1 was: its own data comes back
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2
expect data etcd=one
run etcd=three -> 0
red
expect version 4.14.0 rhel-d1
expect health rhel-d1 unhealthy unhealthy; rhel-d2 unhealthy unhealthy
expect backups health.json rhel-d1/ unhealthy__rhel-d2/

boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 unhealthy-again
    | rhel-d1 was healthy before and is unhealthy now: leave its data, let it try again
expect data etcd=three
run etcd=four -> 0
red
expect copy rhel-d1 etcd=one

boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 unhealthy-again
    | rhel-d1 was healthy before and is unhealthy now: leave its data, let it try again
expect data etcd=four
run etcd=five -> 0
green
expect health rhel-d1 healthy healthy; rhel-d2 unhealthy unhealthy
