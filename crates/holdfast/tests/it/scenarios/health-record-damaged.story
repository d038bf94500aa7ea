# health.json is corrupt, empty or huge: its second copy is used; both bad: nothing is decided, nothing is lost, and the
# hint says how to go on.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
sh echo '{"deployments": [' > "$BACKUPS/health.json"
boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect said second copy is used
run etcd=two -> 0
green
expect health rhel-d1 healthy healthy
sh truncate -s 0 "$BACKUPS/health.json"
boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run -> 0
green
sh head -c 5000000 /dev/zero > "$BACKUPS/health.json"
boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run etcd=three -> 0
green
sh rm "$BACKUPS/health.json"
boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run etcd=four -> 0
green

sh echo rubbish > "$BACKUPS/health.json"; echo > "$BACKUPS/.health.json.second"
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 8 damaged-record
    | health.json and its second copy can't be read
    | error: health.json and its second copy can't be understood (expected value at line 1 column 1); the data was not touched
    | hint: repair health.json, or move it away to begin a new record: `holdfast guard backups list` shows what can be restored
run -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
system unhealthy -> 8
    | error: health.json can't be understood: expected value at line 1 column 1
    | hint: repair health.json or move it away
expect data etcd=four
expect version 4.14.0 rhel-d1
expect copy rhel-d1 etcd=three

# As the hint says: moved away, a new record begins. Nobody has judged the data, so it is kept, and used.
sh rm "$BACKUPS/health.json" "$BACKUPS/.health.json.second"
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0
    | nobody has judged the data of rhel-d1 (boot <n>): keep a copy and go on
    | - backup as rhel-d1
expect data etcd=four
expect copy rhel-d1 etcd=four
run -> 0
green
