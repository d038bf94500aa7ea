# version.json is corrupt, empty or huge: its second copy is used; both bad: the data is preserved, with a code of its own.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
sh echo '{"microshift": "4.1' > "$DATA/version.json"
boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
expect said second copy is used
run -> 0
expect version 4.14.0 rhel-d1
green

sh truncate -s 0 "$DATA/version.json"
boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run etcd=two -> 0
green
sh head -c 100000 /dev/zero > "$DATA/version.json"
boot rhel-d1 4.14.0
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run etcd=three -> 0
green

sh echo rubbish > "$DATA/version.json"; echo rubbish > "$DATA/.version.json.second"
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 8 damaged-record
    | the data does not say what it is
    | error: version.json and its second copy can't be understood (expected value at line 1 column 1); the data was not touched
    | hint: look at version.json in the data directory; `holdfast guard adopt --version V` writes it anew, `holdfast guard backups restore` brings back a backup
run -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
red
expect data etcd=three
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 8 damaged-record
    | the data does not say what it is
    | error: version.json and its second copy can't be understood (expected value at line 1 column 1); the data was not touched
    | hint: look at version.json in the data directory; `holdfast guard adopt --version V` writes it anew, `holdfast guard backups restore` brings back a backup
expect data etcd=three
guard adopt --version 4.14.0 -> 0
pre-run -> 0
    | nobody has judged the data of adopted-4.14.0: keep a copy and go on
    | - backup as adopted-4.14.0
expect data etcd=three
run -> 0
green
