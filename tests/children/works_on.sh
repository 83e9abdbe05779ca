#!/bin/sh
# works_on.sh FILE SECONDS: says "ready", works for SECONDS, makes FILE, and exits 0.
echo ready
sleep "$2"
: >"$1"
