# Data without version.json, although there are records: foreign. It is left alone until somebody says what it is.

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
sh rm -r "$DATA"; mkdir "$DATA"; echo foreign > "$DATA/etcd"
boot rhel-d1 4.14.0
pre-run -> 4 foreign-data
    | there is data without version.json, though boots are on record
    | error: the data directory has no version.json although guard has kept records before: this data came from somewhere else and was left as it is
    | hint: `holdfast guard adopt --version V` takes it over as data of version V; `holdfast guard backups restore` brings back a backup instead
run -> 4
    | error: the workload may not start: this boot has not been prepared
    | hint: run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it mends that, or says what does
expect data etcd=foreign
expect version none
expect copy rhel-d1 etcd=one
guard adopt --version nonsense -> 2
    | error: "nonsense" is not a version: expected MAJOR.MINOR or MAJOR.MINOR.PATCH, with anything after it
    | hint: give it as 4.14.0
guard adopt --version 4.14.0 -> 0
expect version 4.14.0 adopted-4.14.0
guard adopt --version 4.14.0 -> 4
    | error: the data is already on record, as 4.14.0 of adopted-4.14.0
    | hint: move version.json away first if that is wrong
pre-run -> 0 owner-unjudged
    | nobody has judged the data of adopted-4.14.0: keep a copy and go on
    | - backup as adopted-4.14.0
expect data etcd=foreign
expect copy adopted-4.14.0 etcd=foreign
run -> 0
expect version 4.14.0 rhel-d1
green
