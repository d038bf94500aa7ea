# A commit that is deployed again gets another serial: another deployment, with another backup.

boot rhel-abc.0 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-abc.1 4.14.0 beside rhel-abc.0
pre-run -> 0 owner-healthy
    | the data of rhel-abc.0 (boot <n>) was healthy: back it up
    | - backup as rhel-abc.0
expect copy rhel-abc.0 etcd=one of 4.14.0 rhel-abc.0
run etcd=two -> 0
red
boot rhel-abc.0 4.14.0 beside rhel-abc.1
pre-run -> 0 rolled-back-to-healthy
    | the data of rhel-abc.1 (boot <n>) was not healthy, rhel-abc.0 was: its own data comes back
    | - restore from rhel-abc.0 after moving the data to unhealthy__rhel-abc.1
expect data etcd=one
expect copy unhealthy__rhel-abc.1 etcd=two
