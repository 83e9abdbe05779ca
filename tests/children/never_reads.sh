#!/bin/sh
# never_reads.sh [stay]: never reads its stdin; says "ready" and exits 0, or stays.
echo ready
[ "$1" = stay ] && exec sleep 110
exit 0
