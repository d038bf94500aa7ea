# Files as the document writes them: `deployment_id`, no boots, two fields in version.json. Ordered by their times.

sh mkdir "$DATA" "$BACKUPS"; echo two > "$DATA/etcd"
sh echo '{"microshift": "4.14.0", "deployment": "rhel-d2"}' > "$DATA/version.json"
sh echo '{"deployments": [{"deployment_id": "rhel-d2", "microshift": "healthy", "system": "healthy", "last_boot": "2023-07-01 01:00:00"}, {"deployment_id": "rhel-d1", "microshift": "unhealthy", "system": "unhealthy", "last_boot": "2023-07-01 00:00:00"}]}' > "$BACKUPS/health.json"
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 owner-healthy
    | the data of rhel-d2 was healthy: back it up
    | - backup as rhel-d2
expect copy rhel-d2 etcd=two of 4.14.0 rhel-d2
run etcd=three -> 0
green
expect health rhel-d2 healthy healthy; rhel-d1 unhealthy unhealthy
expect version 4.14.0 rhel-d2
