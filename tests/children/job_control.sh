#!/bin/bash
# job_control.sh: a shell with job control: each background job has a process group of its own, and one of them
# ignores SIGTERM. The jobs end by themselves, and then so does the shell.
set -m
sleep 110 &
plain=$!
(trap '' TERM; exec sleep 110) &
stubborn=$!
echo "ready plain=$plain stubborn=$stubborn"
wait
