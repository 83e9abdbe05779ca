"""`holdfast front-ended`: what a front becomes when there is something to tell. Only the front itself calls it."""

from __future__ import annotations

from ...projections.exit_code import exit_code
from ...runs.front import WHY_WAKE, Handover, resume
from ...state.directory import StateDirectory
from ...values.fast_imports import TYPE_CHECKING
from ..terminal.foreground_loop import ForegroundLoop
from ..terminal.signal_pipe import SignalPipe

if TYPE_CHECKING:
    from ...runs.live import LiveRun


def front_ended(words: list[str]) -> int:
    """Wait for the end of the run if it is not over yet, say what its exit code does not, and return that code.

    The words are those of `become_front`: `verbose` or `quiet`, the state directory, the handover, words for a new
    start if there may be one, and why.
    """
    verbosity, path, *rest, why = words
    handover, again = rest[: len(Handover._fields)], rest[len(Handover._fields) :]
    if why == WHY_WAKE:
        from .stdio import wake

        return wake(again)
    signals = SignalPipe()
    state = StateDirectory.open(path) if path else None
    live = resume(Handover.from_words(handover), state, why)
    try:
        if not live.ended:
            foreground = ForegroundLoop(live, signals, None, state=state, late=False, quiet=True)
            foreground.until_settled()
            foreground.close()
        _tell(live, verbose=verbosity == "verbose")
        return exit_code(live.outcome)
    finally:
        live.reap(wait=live.ended)
        live.close()


def _tell(live: LiveRun, *, verbose: bool) -> None:
    """Say how the run ended, when asked, and in any case when the command never ran or the run was lost."""
    outcome = live.outcome
    if not verbose and outcome.cause != "spawn" and outcome.status != "lost":
        return
    from ...wording.sentences import ended
    from ..printing.messages import say

    if (sentence := ended(outcome, live.spec)) is not None:
        say(sentence)
