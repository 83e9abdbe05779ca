"""One measurement in an interpreter of its own: `python -m bench.worker MODULE FUNCTION PARAMETERS` prints JSON.

Each measurement has a fresh process, so that no peer inherits another's threads, caches, memory or child watcher.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings


def main() -> None:
    """Run the measurement that the arguments name."""
    warnings.simplefilter("ignore", DeprecationWarning)  # asyncio's child watchers warn on every use
    module, function, parameters = sys.argv[1:]
    measure = getattr(importlib.import_module(f"bench.{module}"), function)
    print(json.dumps(measure(json.loads(parameters))))


if __name__ == "__main__":
    main()
