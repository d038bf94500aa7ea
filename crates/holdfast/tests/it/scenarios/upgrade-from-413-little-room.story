# 4.13 -> 4.14 on a disk that has room for one copy of the data, as the document makes: a second one must not be needed.

small-disk 500k
sh mkdir "$DATA"; echo old > "$DATA/etcd"; head -c 300000 /dev/zero | tr '\0' x > "$DATA/ballast"
boot rhel-d1 4.14.0 beside rhel-d0
pre-run -> 0 no-record-assumed
    | data without version.json, and no boot on record: taken for 4.13
    | - assume
    | - backup as 4.13: keep it before anything touches it
    | - migrate: the data is of 4.13, the program is 4.14.0: migrate, starting from backup <n>
expect version 4.14.0 rhel-d1
expect data ballast=(300000-bytes) etcd=old
expect copy 4.13 ballast=(300000-bytes) etcd=old of 4.13 4.13
sh test ! -e "$BACKUPS/.generations/4.13"
run -> 0
green
