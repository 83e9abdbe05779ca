#!/bin/sh
# exits.sh CODE: says "ready" and exits with CODE.
echo ready
exit "$1"
