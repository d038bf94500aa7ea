# A deployment can't be called what guard calls its own things, or climb out of the backups directory.

boot unhealthy__rhel-d1 4.14.0
pre-run -> 1
    | error: can't tell which deployment is booted
    | cause: $SCRATCH/deployments.json names a deployment that can't be one
    | cause: "unhealthy__rhel-d1" can't name a deployment: that name is reserved
    | hint: look at what $SCRATCH/deployments.json holds, or give the deployments with --deployments FILE
boot ../rhel-d1 4.14.0
pre-run -> 1
    | error: can't tell which deployment is booted
    | cause: $SCRATCH/deployments.json names a deployment that can't be one
    | cause: "../rhel-d1" can't name a deployment: it begins with a dot
    | hint: look at what $SCRATCH/deployments.json holds, or give the deployments with --deployments FILE
expect backups none
boot rhel-d1 4.14.0 beside .hidden
pre-run -> 1
    | error: can't tell which deployment is booted
    | cause: $SCRATCH/deployments.json names a deployment that can't be one
    | cause: ".hidden" can't name a deployment: it begins with a dot
    | hint: look at what $SCRATCH/deployments.json holds, or give the deployments with --deployments FILE
expect backups none
