# The document also says health.yaml: it is read where there is no health.json, and health.json is written from then on.

sh mkdir "$DATA" "$BACKUPS"; echo one > "$DATA/etcd"
sh echo '{"microshift": "4.14.0", "deployment": "rhel-d1"}' > "$DATA/version.json"
sh printf 'deployments:\n- id: rhel-d1\n  microshift: unhealthy\n  system: unhealthy\n  last_boot: 2023-07-01 00:00:00\n' > "$BACKUPS/health.yaml"
boot rhel-d2 4.14.0 beside rhel-d1
pre-run -> 0 staged-over-unhealthy
    | rhel-d2 was staged over the data of rhel-d1, which was not healthy: start clean
    | - move-aside as unhealthy__rhel-d1
expect data none
expect backups health.json health.yaml unhealthy__rhel-d1/
expect health rhel-d2 unknown unknown; rhel-d1 unhealthy unhealthy
