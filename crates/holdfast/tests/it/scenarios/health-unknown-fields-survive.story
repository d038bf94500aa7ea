# Fields that this version does not know stay in health.json; those in version.json are passed over.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
sh sed -i '0,/"id": "rhel-d1",/s//"id": "rhel-d1", "colour": "blue",/; 0,/{/s//{ "later": [1, 2],/' "$BACKUPS/health.json"
sh sed -i '0,/{/s//{ "shape": {"round": true},/' "$DATA/version.json"
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run -> 0
green
expect health rhel-d2 healthy healthy; rhel-d1 healthy healthy
sh grep -q '"colour": "blue"' "$BACKUPS/health.json" && grep -q '"later"' "$BACKUPS/health.json"
