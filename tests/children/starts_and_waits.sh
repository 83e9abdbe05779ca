#!/bin/sh
# starts_and_waits.sh COMMAND [ARG]...: starts COMMAND in the background and waits for it; COMMAND says "ready".
"$@" &
wait
