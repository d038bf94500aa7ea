# 4.13 -> 4.15: the upgrade is refused, the 4.13 data has been backed up and stays in place.

sh mkdir "$DATA"; echo old > "$DATA/etcd"
boot rhel-d1 4.15.0 beside rhel-d0
pre-run -> 4 no-record-assumed
    | data without version.json, and no boot on record: taken for 4.13
    | - assume
    | - backup as 4.13: keep it before anything touches it
    | error: the program 4.15.0 is more than 1 minor version ahead of the data (4.13)
    | hint: go through the versions between, or set `max-skew` if the workload allows it
expect version 4.13 4.13
expect data etcd=old
expect copy 4.13 etcd=old of 4.13 4.13
run -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
red
expect data etcd=old
expect health rhel-d1 unhealthy unhealthy
