# Versions: two Y ahead is refused, and so is every later boot; `max-skew = 2` allows it.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d2 4.16.0 beside rhel-d1
pre-run -> 4 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
    | error: the program 4.16.0 is more than 1 minor version ahead of the data (4.14.0)
    | hint: go through the versions between, or set `max-skew` if the workload allows it
expect version 4.14.0 rhel-d1
expect data etcd=one
run -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
red
boot rhel-d2 4.16.0 beside rhel-d1
pre-run -> 4
    | the data of rhel-d1 (boot <n>) was healthy, and copy <n> holds it
    | error: the program 4.16.0 is more than 1 minor version ahead of the data (4.14.0)
    | hint: go through the versions between, or set `max-skew` if the workload allows it
expect data etcd=one
set max-skew 2
pre-run -> 0
    | the data of rhel-d1 (boot <n>) was healthy, and copy <n> holds it
    | - migrate: the data is of 4.14.0, the program is 4.16.0: migrate, starting from backup <n>
expect version 4.16.0 rhel-d2
run -> 0
green
