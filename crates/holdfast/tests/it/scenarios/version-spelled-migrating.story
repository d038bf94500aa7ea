# The document's own way to say that a migration is under way, in the version field: understood, and taken back to the
# backup that has the version it started from.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run -> 0
green
sh echo half > "$DATA/etcd"
sh echo '{"microshift": "failed-migrating-from-4.14.0-to-4.15.0", "deployment": "rhel-d2"}' > "$DATA/version.json"
boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 0
    | the data of rhel-d1 (boot <n>) was healthy, and copy <n> holds it
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2: the migration from 4.14.0 to 4.15.0 failed: return to the backup it started from
    | - migrate: the data is of 4.14.0, the program is 4.15.0: migrate, starting from backup <n>
expect data etcd=one
expect version 4.15.0 rhel-d2
run -> 0
green
