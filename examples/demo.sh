#!/usr/bin/env bash
# Usage: examples/demo.sh BIN, where BIN holds the installed `holdfast` and its `python`.
# Shows one run from start to report, and checks what it claims: exits 1 if Holdfast did not keep its word.
set -euo pipefail
bin=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cat <<'TEXT'

This is a command that misbehaves on purpose. It prints as it works, ignores SIGTERM, and leaves a daemon behind:
forked twice, in its own session, with nothing that leads back to it.

Holdfast gives it 2 seconds, then asks with SIGTERM, then waits 1 second of grace, then ends everything it started:

  $ holdfast run --timeout 2s --grace 1s --report report.json -- python misbehave.py daemon.pid

TEXT

code=0
"$bin/holdfast" run --timeout 2s --grace 1s --report "$scratch/report.json" -- \
  "$bin/python" misbehave.py "$scratch/daemon.pid" || code=$?

printf '\nIts exit code is %s (124 means: timed out). What it said after the verdict was not delivered, only recorded, as\n' "$code"
printf 'late_bytes. This is the report, with the evidence it rests on:\n\n'
"$bin/python" -m json.tool "$scratch/report.json"

daemon=$(<"$scratch/daemon.pid")
if kill -0 "$daemon" 2>/dev/null; then
  kill -KILL "$daemon"
  printf '\nThe daemon, PID %s, was still alive. That is a bug in Holdfast: please report it.\n' "$daemon" >&2
  exit 1
fi
printf '\nThe daemon, PID %s, is gone too: the kernel knows no such process.\n' "$daemon"
if [[ $code != 124 ]]; then
  printf 'But the exit code should have been 124. That is a bug in Holdfast: please report it.\n' >&2
  exit 1
fi
