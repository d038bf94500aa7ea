# The program that knows the deployments is not there, prints rubbish, or leaves out what is booted: no decision is made.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
green
boot rhel-d2 4.14.0 beside rhel-d1
sh echo rubbish > deployments.json
pre-run -> 1
    | error: can't tell which deployment is booted
    | cause: $SCRATCH/deployments.json is not what was expected: expected value at line 1 column 1, near "rubbish "
    | hint: look at what $SCRATCH/deployments.json holds, or give the deployments with --deployments FILE
expect data etcd=one
expect health rhel-d1 healthy healthy
expect backups health.json
sh echo '{"booted":"rhel-d2","deployments":["rhel-d1"]}' > deployments.json
pre-run -> 1
    | error: can't tell which deployment is booted
    | cause: $SCRATCH/deployments.json does not list rhel-d2, which is said to be booted
    | hint: add rhel-d2 to the list, or correct which one is booted
sh rm deployments.json
pre-run -> 1
    | error: can't tell which deployment is booted
    | cause: can't read $SCRATCH/deployments.json
    | cause: No such file or directory (os error 2)
    | hint: see that $SCRATCH/deployments.json exists and can be read
expect data etcd=one
expect health rhel-d1 healthy healthy
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d1 (boot <n>) was healthy: back it up
    | - backup as rhel-d1
