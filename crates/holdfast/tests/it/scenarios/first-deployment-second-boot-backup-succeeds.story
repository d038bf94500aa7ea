# Reboot: second boot, the backup succeeds. Then a third one, which makes the older backup a generation.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
expect backups health.json

boot rhel-d1 4.14.0
expect version 4.14.0 rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect copy rhel-d1 etcd=one of 4.14.0 rhel-d1
run etcd=two -> 0
expect health rhel-d1 unknown unknown
green
expect version 4.14.0 rhel-d1
expect data etcd=two
expect health rhel-d1 healthy healthy
expect backups health.json rhel-d1/
expect copy rhel-d1 etcd=one

boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect copy rhel-d1 etcd=two
expect copy .generations/rhel-d1/3 etcd=one
expect backups health.json rhel-d1/
guard backups list -> 0
    | N   NAME                     VERSION   HEALTHY   BOOT   MADE
    | 3   .generations/rhel-d1/3   4.14.0    yes       1      <time>
    | 5   rhel-d1                  4.14.0    yes       2      <time>
