"""A command that is tried again when it was too slow or its guard was lost, and never when it failed by itself.

python examples/patient_download.py curl -fsSO https://example.org/file
"""

from __future__ import annotations

import sys

import holdfast

RETRY = holdfast.Retry(times=3, on=("timed_out", "lost"), ambiguous=True, pause="1s")  # a download may run twice

try:
    result = holdfast.run(sys.argv[1:], timeout="2m", idle_timeout="20s", idle_counts="output,cpu", retry=RETRY)
    sys.stdout.buffer.write(result.check().stdout)
except holdfast.RunError as error:
    sys.exit(f"gave up: {error.message}")
