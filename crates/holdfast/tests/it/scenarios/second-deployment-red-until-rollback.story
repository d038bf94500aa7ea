# Second deployment staged; red in each boot, every one starting from the same data, then the rollback to the first.

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
expect version 4.14.0 rhel-d2
expect health rhel-d2 unhealthy unhealthy; rhel-d1 healthy healthy
expect backups health.json rhel-d1/

boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 always-unhealthy-retry
    | rhel-d2 was never healthy: try again from the healthy data of rhel-d1, as at its first boot
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2
expect version 4.14.0 rhel-d1
expect data etcd=one
expect backups health.json rhel-d1/ unhealthy__rhel-d2/
expect copy unhealthy__rhel-d2 etcd=two of 4.14.0 rhel-d2
run etcd=three -> 0
expect version 4.14.0 rhel-d2
red

boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 always-unhealthy-retry
    | rhel-d2 was never healthy: try again from the healthy data of rhel-d1, as at its first boot
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2__2
expect data etcd=one
run etcd=four -> 0
red-elsewhere
expect health rhel-d2 healthy unhealthy; rhel-d1 healthy healthy
expect version 4.14.0 rhel-d2

# boot_counter has reached -1: the boot loader takes the first again.
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 rolled-back-to-healthy
    | the data of rhel-d2 (boot <n>) was not healthy, rhel-d1 was: its own data comes back
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2__3
expect version 4.14.0 rhel-d1
expect data etcd=one
run -> 0
expect version 4.14.0 rhel-d1
expect data etcd=one
expect health rhel-d1 unknown unknown; rhel-d2 healthy unhealthy
expect copy rhel-d1 etcd=one of 4.14.0 rhel-d1
green
expect health rhel-d1 healthy healthy; rhel-d2 healthy unhealthy
