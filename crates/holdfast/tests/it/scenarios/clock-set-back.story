# The clock was set back ten years: what counts is the order in which things happened. The times in the records are made to
# lie as such a clock would have made them.

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
sh sed -i -E '/rhel-d1/,/\}/s/"(at|last_boot)": "[0-9]{4}/"\1": "2036/' "$BACKUPS/health.json" "$BACKUPS/.health.json.second"
sh sed -i -E '/rhel-d2/,/\}/s/"(at|last_boot)": "[0-9]{4}/"\1": "2016/' "$BACKUPS/health.json" "$BACKUPS/.health.json.second"
sh sed -i -E 's/"at": "[0-9]{4}/"at": "2016/' "$BACKUPS"/.records/*.json
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 rolled-back-to-healthy
    | the data of rhel-d2 (boot <n>) was not healthy, rhel-d1 was: its own data comes back
    | - restore from rhel-d1 after moving the data to unhealthy__rhel-d2
expect data etcd=one
run etcd=three -> 0
green
boot rhel-d1 4.14.0 beside rhel-d2
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect copy rhel-d1 etcd=three
expect health rhel-d1 unknown unknown; rhel-d2 unhealthy unhealthy
