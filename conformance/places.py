"""The directories of the pack for built and installed files, outside of everything that is committed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT = Path(os.environ.get("CONFORMANCE_BUILT") or ROOT / "build" / "conformance")
CHILDREN = BUILT / "children"
PYTHON_PACKAGES = BUILT / "python"
NODE_PACKAGES = BUILT / "node"
GO_CACHE = BUILT / "go-cache"
GO_PEER = BUILT / "go-peer"
ADAPTERS = ROOT / "conformance" / "adapters"
INTERPRETER = Path(sys.executable)
