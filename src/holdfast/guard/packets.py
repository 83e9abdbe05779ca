"""Packets of the control socket: requests to a guard, and the answers and wakes that it sends.

One packet is one frame on a `SOCK_SEQPACKET` socket, so there is no framing to get wrong and no partial read. The
frame's time field carries the caller's ticket, and the guard's answer carries the same one. Packets carry no check: the
kernel delivers them whole or not at all.
"""

from __future__ import annotations

import struct

from ..journal.codec import FRAME, FRAME_SIZE
from ..journal.facts import CAUSES, MARK
from ..values.fast_imports import NamedTuple

STOP = 64
SIGNAL = 65
EXTEND = 66
READ = 67
GIVE_INPUT = 68
CLOSE_INPUT = 69
HEARTBEAT = 70
NEXT = 71
HELLO = 72  # no request that a guard knows: it answers those, too
STOP_WITHIN = 74
KEEP = 75
ANSWER = 80
WAKE = 81
UNRECORDED = 82

SCOPE_LEADER = 1
SCOPE_TREE = 2
PACKET_MAX = 4096  # the longest packet either side sends; a reason is cut to fit
REASON_MAX = 1024
NEXT_SPEC_MAX = 32 << 10
NEXT_RUN_ID_MAX = 20  # the longest run id that a used guard can show in its command line

_NO_WAKE = _HOLDS_NOTHING = 2**64 - 1
_STOP = struct.Struct("<iiii")
_STOP_WITHIN = struct.Struct("<iiiiQ")
_PAIR = struct.Struct("<ii")
_NUMBER = struct.Struct("<Q")
_NUMBERS = struct.Struct("<QQ")
_UNRECORDED = struct.Struct("<QQQ")


class Answer(NamedTuple):
    """The guard did, or refused to do, what the request with this ticket asked."""

    ticket: int
    error: int


class Wake(NamedTuple):
    """There is something new to read: the journal was this long when the guard sent the wake."""

    journal_length: int


class Unrecorded(NamedTuple):
    """The run has ended, but its storage does not take the end of the record. A descriptor for the rest came along.

    The descriptor is a memfd. It has the journal from `kept_from` to `length`, at the journal's own offsets. Storage
    had taken nothing for `stalled_ns`.
    """

    kept_from: int
    length: int
    stalled_ns: int


def stop(
    ticket: int,
    cause: str,
    reason: str,
    *,
    now: bool,
    signal: int = 0,
    person: bool = False,
    grace_s: float | None = None,
) -> bytes:
    """Ask for the end of the run. A request joins an end that is under way; `now` goes to the last rung.

    `person`: a person asks, and the second such request climbs to the next rung. `signal` is the signal that made the
    caller ask, if any. `grace_s`: the last rung comes after this time at the latest; it never makes a grace longer.
    ValueError for a cause that is not in the contract.
    """
    text = reason.encode("utf-8", "replace")[:REASON_MAX].decode("utf-8", "ignore").encode()
    asked = CAUSES.number(cause), now, signal, person
    if grace_s is None:
        return _packet(STOP, _STOP.pack(*asked) + text, ticket)
    return _packet(STOP_WITHIN, _STOP_WITHIN.pack(*asked, round(grace_s * 1e9)) + text, ticket)


def signal(ticket: int, number: int, *, tree: bool) -> bytes:
    """Ask for one signal to the leader, or to every process of the run."""
    return _packet(SIGNAL, _PAIR.pack(number, SCOPE_TREE if tree else SCOPE_LEADER), ticket)


def extend(ticket: int, by_ns: int) -> bytes:
    """Ask for a later deadline."""
    return _packet(EXTEND, _NUMBER.pack(by_ns), ticket)


def read(consumed: int, seen: int) -> bytes:
    """Ask for one wake at output beyond `seen`. The guard may drop what is before `consumed`. Not answered."""
    return _packet(READ, _NUMBERS.pack(consumed, seen), 0)


def hold_nothing() -> bytes:
    """Tell the guard that we do not read the output any more, and ask for no wake. Not answered."""
    return _packet(READ, _NUMBERS.pack(_HOLDS_NOTHING, _NO_WAKE), 0)


def release(consumed: int) -> bytes:
    """Let the guard drop what is before `consumed`, and ask for no wake. Not answered."""
    return _packet(READ, _NUMBERS.pack(consumed, _NO_WAKE), 0)


def give_input(ticket: int) -> bytes:
    """Ask for the command's stdin or terminal: the answer brings the descriptor."""
    return _packet(GIVE_INPUT, b"", ticket)


def close_input(ticket: int) -> bytes:
    """Ask the guard to close its own copy of the command's stdin."""
    return _packet(CLOSE_INPUT, b"", ticket)


def heartbeat(ticket: int) -> bytes:
    """Tell the guard's idle clock that the run is alive."""
    return _packet(HEARTBEAT, b"", ticket)


def hello() -> bytes:
    """Ask for nothing but an answer. The guard wakes the sender that gets it for everything recorded from then on."""
    return _packet(HELLO, b"", 0)


def next_run(spec: bytes, descriptors: int) -> bytes:
    """Give an idle guard its next run; `descriptors` has one bit for each descriptor sent along. Not answered."""
    return _packet(NEXT, spec, descriptors)


def keep(ticket: int, run_id: str) -> bytes:
    """Let the stragglers go on as the run of this id. Its journal, socket and directory are sent along."""
    return _packet(KEEP, run_id.encode(), ticket)


def decode(packet: bytes) -> Answer | Wake | Unrecorded | None:
    """Decode a packet from the guard; None for a packet that this version does not know."""
    if len(packet) < FRAME_SIZE:
        return None
    mark, kind, _, _, length, _, ticket = FRAME.unpack_from(packet)
    if mark != MARK or length != len(packet) - FRAME_SIZE:
        return None
    if kind == WAKE and length >= _NUMBER.size:
        return Wake(_NUMBER.unpack_from(packet, FRAME_SIZE)[0])
    if kind == UNRECORDED and length >= _UNRECORDED.size:
        return Unrecorded(*_UNRECORDED.unpack_from(packet, FRAME_SIZE))
    if kind == ANSWER and length >= _PAIR.size:
        return Answer(ticket, _PAIR.unpack_from(packet, FRAME_SIZE)[0])
    return None


def _packet(kind: int, payload: bytes, ticket: int) -> bytes:
    return FRAME.pack(MARK, kind, 0, 0, len(payload), 0, ticket) + payload
