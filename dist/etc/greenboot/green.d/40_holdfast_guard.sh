#!/bin/bash
# greenboot: this boot is good. The next one will back up what it leaves.
exec holdfast guard persist-system-health --healthy
