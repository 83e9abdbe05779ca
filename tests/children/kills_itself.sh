#!/bin/sh
# kills_itself.sh [SIGNAL]: says "ready" and dies of SIGNAL (KILL), sent by itself.
echo ready
kill -s "${1:-KILL}" $$
