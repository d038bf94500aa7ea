#!/bin/bash
# greenboot: is the workload healthy? The checks are guard's own: the executables in /usr/lib/holdfast/health and
# /etc/holdfast/health, and those of /etc/holdfast/*.toml. They are not in greenboot's directories, and guard's
# directories must never name greenboot's: this script would call itself.
set -u

# Data that could not be prepared is a failed boot, and waiting for the workload would be in vain.
if systemctl is-failed --quiet holdfast-guard-pre-run.service 2>/dev/null; then
    echo "the data could not be prepared for this boot: see journalctl -b -u holdfast-guard-pre-run.service" >&2
    exit 1
fi
exec holdfast guard healthcheck
