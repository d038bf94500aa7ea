# The workload's program is not there: said, and nothing else happens.

boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
guard run -- /no/such/program -> 1
    | error: can't start /no/such/program
    | cause: No such file or directory (os error 2)
    | hint: check the program's name and that it is executable
red
boot rhel-d1 4.14.0
pre-run -> 0
    | rhel-d1 was never healthy and nothing ran before it: start clean
    | - move-aside as unhealthy__rhel-d1
run etcd=one -> 0
green
