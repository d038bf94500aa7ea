# L5: d1 green; d2 migrates, red; d1: the power fails inside the restore; d2 boots. As written, the half copy is taken for
# good and overwrites the backup. Here the half copy never gets near the data.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one certs/ca=first -> 0
green
boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | - migrate: the data is of 4.14.0, the program is 4.15.0: migrate, starting from backup <n>
run etcd=two -> 0
red
boot rhel-d1 4.14.0 beside rhel-d2
cut open incoming-: pre-run
expect version 4.15.0 rhel-d2
expect data etcd=two certs/ca=first
expect copy rhel-d1 etcd=one certs/ca=first of 4.14.0 rhel-d1

# The data is its own and was left alone: it may try again.
boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 0 unhealthy-untouched
    | rhel-d2 was unhealthy, another deployment was tried and left the data alone: keep the last healthy backup apart, back the data up as it is, and try again
    | - recover: it was interrupted before it had changed anything: undo it
    | - backup as rhel-d2
expect data etcd=two certs/ca=first
expect version 4.15.0 rhel-d2
expect copy rhel-d1 etcd=one certs/ca=first of 4.14.0 rhel-d1
run -> 0
red
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 rolled-back-to-healthy
    | the data of rhel-d2 (boot <n>) was not healthy, rhel-d1 was: its own data comes back
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2
expect data etcd=one certs/ca=first
expect version 4.14.0 rhel-d1
run -> 0
green
