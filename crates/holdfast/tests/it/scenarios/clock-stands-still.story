# All times are equal: the order is still known.

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
sh sed -i -E 's/"(at|last_boot)": "[^"]*"/"\1": "1970-01-01 00:00:00"/' "$BACKUPS/health.json" "$BACKUPS/.health.json.second"
boot rhel-d2 4.15.0 beside rhel-d1
pre-run -> 0 always-unhealthy-retry
    | rhel-d2 was never healthy: try again from the healthy data of rhel-d1, as at its first boot
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2
    | - migrate: the data is of 4.14.0, the program is 4.15.0: migrate, starting from backup <n>
expect data etcd=one
expect version 4.15.0 rhel-d2
