# Every `-o json` is a document with its kind.

boot rhel-d1 4.14.0
guard pre-run --dry-run -o json -> 0
    | GuardPlan
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
guard healthcheck -o json -> 0
    | HealthReport
green
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
run etcd=two -> 0
guard status -o json -> 0
    | GuardStatus
guard history -o json -> 0
    | GuardHistory
guard deployments -o json -> 0
    | GuardDeployments
guard backups list -o json -> 0
    | GuardBackupList
guard backups verify -o json -> 0
    | GuardVerification
guard backups restore rhel-d1 --dry-run -o json -> 0
    | GuardPlan
guard backups restore rhel-d1 -o json -> 0
    | GuardPlan
guard backups prune --dry-run -o json -> 0
    | GuardPruning
guard backups prune -o json -> 0
    | GuardPruning
guard mark-deploy-as-healthy rhel-d2 --reason "seen" -o json -> 0
    | GuardMark
