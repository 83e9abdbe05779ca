"""The expectation of a row, and the judgement of a cell: status, bytes, time, processes left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from .oracle import Member

_SHOWN = 60


class Expect(NamedTuple):
    """The expectation for every command of a row. Without `statuses` no answer is expected."""

    statuses: tuple[str, ...] = ()
    cause: str | None = None
    codes: tuple[int, ...] = ()  # one for each command
    signal: int | None = None
    begins: bytes | None = b"ready"  # stdout
    stdout: bytes | None = None  # all of it
    stderr: bytes | None = None
    counted: int | None = None  # bytes of stdout, when they are not kept
    check: Callable[[bytes], str | None] | None = None  # more about stdout: what is wrong with it
    within_s: float = 4.0
    mark: bool | None = None  # whether the command left its mark
    left: bool = True  # whether remaining processes matter; not where nothing can be killed
    peak_mib: int | None = None


class Seen(NamedTuple):
    """The observations of one cell."""

    answers: list[dict[str, Any]]
    left: list[Member]
    left_later: list[Member]
    marked: bool
    peak_mib: int
    grows: bool = False  # a chain of processes that is too fast to be seen goes on
    hung: str | None = None  # why there are fewer answers than commands


class Finding(NamedTuple):
    """One thing that did not hold: `status`, `bytes`, `time` or `left`, and what was seen instead."""

    aspect: str
    what: str


def judge(expect: Expect, seen: Seen) -> list[Finding]:
    """Everything that did not hold; empty if all did."""
    found: list[Finding] = []
    if expect.statuses:
        if seen.hung:
            found.append(Finding("time", seen.hung))
        for number, answer in enumerate(seen.answers):
            found += _judge_answer(expect, answer, number)
    if expect.mark is not None and seen.marked is not expect.mark:
        what = "it worked on after its time" if seen.marked else "it did not get to use its handler"
        found.append(Finding("status", what))
    if expect.peak_mib is not None and seen.peak_mib > expect.peak_mib:
        found.append(Finding("bytes", f"took {seen.peak_mib} MiB of memory, more than {expect.peak_mib}"))
    if expect.left and seen.left:
        found.append(Finding("left", _crowd(seen.left)))
    elif expect.left and seen.grows:
        found.append(Finding("left", "they go on"))
    elif expect.left and seen.left_later:
        found.append(Finding("left", f"after the end, {_crowd(seen.left_later)}"))
    return _once(found)


def _judge_answer(expect: Expect, answer: dict[str, Any], number: int) -> list[Finding]:
    found = []
    if wrong := _wrong_ending(expect, answer, number):
        found.append(Finding("status", wrong))
    elif wrong := _wrong_bytes(expect, answer):  # an answer that is wrong about the end is not blamed twice
        found.append(Finding("bytes", wrong))
    if answer["seconds"] > expect.within_s:
        found.append(Finding("time", f"took {answer['seconds']:.0f} s"))
    return found


def _wrong_ending(expect: Expect, answer: dict[str, Any], number: int) -> str | None:
    said = _in_words(answer)
    if answer["status"] not in expect.statuses:
        return f"said {said}"
    if expect.cause is not None and answer["cause"] != expect.cause:
        return f"said {said}, not {expect.cause}"
    if expect.codes and answer["exit_code"] != expect.codes[number]:
        return f"said {said}, not exit code {expect.codes[number]}"
    if expect.signal is not None and answer["signal"] not in (None, expect.signal):
        return f"said {said}, not signal {expect.signal}"
    if answer["status"] == "succeeded" and answer["exit_code"] != 0:
        return f"said succeeded with exit code {answer['exit_code']}"
    if answer["tree"] == "gone" and not expect.left:
        return "said that all are gone, and one was not"
    return None


def _wrong_bytes(expect: Expect, answer: dict[str, Any]) -> str | None:
    if expect.counted is not None:
        count = answer["stdout_bytes"]
        return None if count == expect.counted else f"{count} of {expect.counted} bytes arrived"
    stdout, stderr = _read(answer["stdout"]), _read(answer["stderr"])
    if expect.begins is not None and not stdout.startswith(expect.begins):
        return f"stdout lacks its beginning, {len(stdout)} bytes: {stdout[:_SHOWN]!r}"
    if expect.stdout is not None and stdout != expect.stdout:
        return f"stdout is {stdout[:_SHOWN]!r}"
    if expect.stderr is not None and stderr != expect.stderr:
        return f"stderr is {stderr[:_SHOWN]!r}"
    return expect.check(stdout) if expect.check else None


def _in_words(answer: dict[str, Any]) -> str:
    detail = [answer["cause"]] if answer["cause"] else []
    detail += [f"code {answer['exit_code']}"] if answer["exit_code"] is not None else []
    detail += [f"signal {answer['signal']}"] if answer["signal"] is not None else []
    note = f" ({answer['note'][:_SHOWN]})" if answer["status"] == "error" and answer["note"] else ""
    return f"{answer['status']}{' ' if detail else ''}{', '.join(detail)}{note}"


def _crowd(left: list[Member]) -> str:
    """How many processes and which programs; process numbers would differ from run to run."""
    names = sorted({Path(member.program).name or "short-lived ones" for member in left})
    return f"{'one' if len(left) == 1 else 'several'} left alive ({', '.join(names)})"


def _once(found: list[Finding]) -> list[Finding]:
    return list(dict.fromkeys(found))


def _read(path: str | None) -> bytes:
    return Path(path).read_bytes() if path else b""
