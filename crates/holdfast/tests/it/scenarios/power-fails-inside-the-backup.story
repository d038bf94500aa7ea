# The power fails while the backup is being written: a backup without its record does not exist, and the next boot makes it.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d1 4.14.0
cut open .staging/: pre-run
expect backups health.json
expect data etcd=one
boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - recover: it was interrupted before it had changed anything: undo it
    | - backup as rhel-d1
expect backups health.json rhel-d1/
expect copy rhel-d1 etcd=one
