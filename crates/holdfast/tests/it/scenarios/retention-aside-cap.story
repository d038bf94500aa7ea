# What is moved aside is capped, oldest first: a device that is never healthy does not fill its disk.

set retention.aside-max 2
boot rhel-d1 4.14.0
pre-run -> 0 first-boot
    | there is no data and no backup: a first boot
run etcd=one -> 0
red
boot rhel-d1 4.14.0
pre-run -> 0 always-unhealthy-first
    | rhel-d1 was never healthy and nothing ran before it: start clean
    | - move-aside as unhealthy__rhel-d1
run etcd=two -> 0
red
boot rhel-d1 4.14.0
pre-run -> 0 always-unhealthy-first
    | rhel-d1 was never healthy and nothing ran before it: start clean
    | - move-aside as unhealthy__rhel-d1__2
run etcd=three -> 0
red
expect backups health.json unhealthy__rhel-d1/ unhealthy__rhel-d1__2/
expect copy unhealthy__rhel-d1 etcd=one
expect copy unhealthy__rhel-d1__2 etcd=two
boot rhel-d1 4.14.0
pre-run -> 0 always-unhealthy-first
    | rhel-d1 was never healthy and nothing ran before it: start clean
    | - move-aside as unhealthy__rhel-d1__3
    | - discard unhealthy__rhel-d1: more data was moved aside than the limits allow
expect backups health.json unhealthy__rhel-d1__2/ unhealthy__rhel-d1__3/
expect copy unhealthy__rhel-d1__3 etcd=three
run etcd=four -> 0
green
