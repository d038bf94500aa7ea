# 4.13 -> 4.14 -rollback-> 4.13 -> 4.14. Version 4.13 knows nothing of all this; it has left data without records.

sh mkdir "$DATA"; echo old > "$DATA/etcd"
boot rhel-d1 4.14.0 beside rhel-d0
expect version none
expect backups none
set migration.command ["/bin/sh","-c","echo migrated > $0/etcd"]
pre-run -> 0 no-record-assumed
    | data without version.json, and no boot on record: taken for 4.13
    | - assume
    | - backup as 4.13: keep it before anything touches it
    | - migrate: the data is of 4.13, the program is 4.14.0: migrate, starting from backup <n>
expect version 4.14.0 rhel-d1
expect data etcd=migrated
expect backups health.json 4.13/
expect copy 4.13 etcd=old of 4.13 4.13
run -> 0
red
expect version 4.14.0 rhel-d1
expect health rhel-d1 unhealthy unhealthy
expect backups health.json 4.13/

# Greenboot reboots, it stays red.
boot rhel-d1 4.14.0 beside rhel-d0
pre-run -> 0
    | rhel-d1 was never healthy and nothing ran before it: start clean
    | - move-aside as unhealthy__rhel-d1
run -> 0
red-elsewhere

# Rollback to rhel-d0, whose 4.13 fails on the data. The administrator overwrites it with the backup, by hand.
sh rm -r "$DATA"; cp -a "$BACKUPS/4.13" "$DATA"
boot rhel-d2 4.14.0 beside rhel-d0
expect version 4.13 4.13
expect health rhel-d1 healthy unhealthy
pre-run -> 0 owner-unjudged
    | nobody has judged the data of 4.13: keep a copy and go on
    | - backup as 4.13
    | - migrate: the data is of 4.13, the program is 4.14.0: migrate, starting from backup <n>
expect version 4.14.0 rhel-d2
expect data etcd=migrated
expect copy 4.13 etcd=old of 4.13 4.13
run -> 0
green
expect health rhel-d2 healthy healthy; rhel-d1 healthy unhealthy
