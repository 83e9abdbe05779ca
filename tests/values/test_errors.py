"""Errors are one line with the event, the run and the remedy; they survive pickling."""

from __future__ import annotations

import errno
import pickle

import pytest

from holdfast.values import errors
from holdfast.values.errors import (
    GuardError,
    HoldfastError,
    JournalDamagedError,
    JournalError,
    JournalVersionError,
    RequestError,
    ResourceError,
    RunError,
    SpecError,
    UnsupportedPlatformError,
)

ALL = [
    HoldfastError("it broke", run_id="r1", remedy="mend it"),
    SpecError("it broke", field="timeout", run_id="r1", remedy="mend it"),
    ResourceError("it broke", errno=errno.EMFILE, run_id="r1", remedy="mend it"),
    GuardError("it broke", errno=errno.ENOENT, run_id="r1", remedy="mend it"),
    JournalError("it broke", run_id="r1", remedy="mend it"),
    JournalVersionError("it broke", run_id="r1", remedy="mend it"),
    JournalDamagedError("it broke", run_id="r1", remedy="mend it"),
    RunError("it broke", result={"status": "failed"}, run_id="r1", remedy="mend it"),
    RequestError("it broke", errno=errno.ESRCH, run_id="r1", remedy="mend it"),
    UnsupportedPlatformError("it broke", run_id="r1", remedy="mend it"),
    errors.ConfigError("it broke", file="x.toml", line=3, name="limits.max_runs", run_id="r1", remedy="mend it"),
    errors.DaemonError("it broke", status=500, run_id="r1", remedy="mend it"),
    errors.DaemonUnreachableError("it broke", run_id="r1", remedy="mend it"),
    errors.UnauthorizedError("it broke", status=401, run_id="r1", remedy="mend it"),
    errors.DrainingError("it broke", retry_after_s=3.0, run_id="r1", remedy="mend it"),
    errors.PolicyError("it broke", rule="programs", run_id="r1", remedy="mend it"),
    errors.QueueFullError("it broke", run_id="r1", remedy="mend it"),
    errors.NotReadyError("it broke", run_id="r1", remedy="mend it"),
    errors.IdempotencyConflictError("it broke", run_id="r1", remedy="mend it"),
    *(
        state_error("it broke", run_id="r1", remedy="mend it")
        for state_error in (
            errors.StateError,
            errors.StateVersionError,
            errors.RunExistsError,
            errors.RunNotFoundError,
            errors.AmbiguousRunError,
            errors.SessionClosedError,
        )
    ),
]


def name_of(error: HoldfastError) -> str:
    return type(error).__name__


def test_every_error_class_is_in_the_table() -> None:
    public = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, HoldfastError) and not name.startswith("_")
    }
    assert public == {name_of(error) for error in ALL}


@pytest.mark.parametrize("error", ALL, ids=name_of)
def test_says_what_happened_to_which_run_and_what_to_do(error: HoldfastError) -> None:
    assert str(error) == "it broke (run r1): mend it"
    assert isinstance(error, HoldfastError)
    assert (error.message, error.run_id, error.remedy) == ("it broke", "r1", "mend it")


@pytest.mark.parametrize("error", ALL, ids=name_of)
def test_crosses_process_boundaries_whole(error: HoldfastError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (HoldfastError("it broke"), "it broke"),
        (HoldfastError("it broke", run_id="r1"), "it broke (run r1)"),
        (HoldfastError("it broke", remedy="mend it"), "it broke: mend it"),
        (HoldfastError("it\nbroke\r\nbadly"), "it broke badly"),
    ],
)
def test_leaves_out_what_is_not_known_and_stays_on_one_line(error: HoldfastError, text: str) -> None:
    assert str(error) == text


def test_bad_input_is_also_a_value_error() -> None:
    with pytest.raises(ValueError, match="it broke"):
        raise SpecError("it broke", field="argv")


def test_journal_errors_are_one_family() -> None:
    assert issubclass(JournalVersionError, JournalError)
    assert issubclass(JournalDamagedError, JournalError)


@pytest.mark.parametrize("number", sorted(errors.RESOURCE_ERRNOS))
def test_a_spent_resource_comes_with_a_remedy(number: int) -> None:
    error = ResourceError.from_os_error(OSError(number, "x"), doing="start the guard", run_id="r1")
    assert error.errno == number
    assert error.remedy
    assert str(error).startswith("cannot start the guard: ")
    assert "(run r1)" in str(error)


def test_an_errno_without_a_remedy_is_still_named() -> None:
    error = ResourceError.from_os_error(OSError(errno.EIO, "x"), doing="start the guard")
    assert str(error) == "cannot start the guard: Input/output error"
    assert ResourceError.from_os_error(OSError("odd"), doing="start").errno is None
