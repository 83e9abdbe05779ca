"""The beginning of a journal, which the owner writes before it starts the guard: run id, spec, time and host."""

from __future__ import annotations

import os
import time

from ..values.fast_imports import TYPE_CHECKING
from ..values.fields import printable
from ..values.identity import boot_id
from ..values.spec import public_spec, shared_fields
from .codec import journal_preamble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ..values.spec import RunSpec


def beginning(spec: RunSpec) -> bytes:
    """Encode the preamble, the header and the spec, without environment values."""
    global _known_json
    known = _known_json  # read once: another thread may replace it
    key = shared_fields(spec)
    if known is None or known[0] != key:
        known = _known_json = (key, _unnamed_json(spec))
    own: dict[str, Any] = {"run_id": spec.run_id, "argv": [printable(argument) for argument in spec.argv]}
    if spec.mark is not None:
        own["mark"] = spec.mark
    if spec.queued_at is not None:
        own["queued_at"] = spec.queued_at
    if spec.foreign is None and spec.in_container is None:  # their directories are not ours
        try:
            own["started_in"] = printable(os.getcwd())
        except OSError:
            pass  # our directory was removed
    spec_json = _json(own)[:-1] + b", " + known[1][1:]
    boottime_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    host = os.uname().nodename
    return journal_preamble(spec.run_id, boot_id() or "unknown", time.time_ns(), boottime_ns, spec_json, host)


_known_json: tuple[tuple[object, ...], bytes] | None = None


def _unnamed_json(spec: RunSpec) -> bytes:
    public = public_spec(spec)
    del public["run_id"], public["argv"], public["mark"], public["queued_at"]
    # Options that are not set are left out.
    is_set = {name: value for name, value in public.items() if value is not None and value is not False and value != []}
    return _json(is_set)


def _json(value: dict[str, Any]) -> bytes:
    return "".join(_encode_json(value, 0)).encode()


def _json_encoder() -> Callable[[dict[str, Any], int], Iterable[str]]:
    # Importing json compiles regular expressions for its decoder. The encoder in C needs none.
    try:
        from _json import encode_basestring_ascii, make_encoder
    except ImportError:
        import json

        return lambda value, _level: json.dumps(value)
    return make_encoder(None, repr, encode_basestring_ascii, None, ": ", ", ", False, False, False)


_encode_json = _json_encoder()
