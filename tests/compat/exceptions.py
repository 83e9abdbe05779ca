"""Tests of the owners that do not pass on our drop-ins, each with its reason, and why owners skip a test.

`test_owners` holds the table both ways: every other test passes, and each of these fails. At most a tenth of a suite's
test functions may be here. trio's two are four of its 36 tests, because each of them runs in two ways.
"""

from __future__ import annotations

_VFORK = "replaces the private `_fork_exec`, which starts nothing here"
_INTERRUPT = "replaces the private `Popen._wait` or `subprocess.Popen` and counts calls of its parts"
_WAITS = "waits for the child's number itself with `os.waitpid`; the child is the guard's"
_POPEN = "replaces `subprocess.Popen` of the standard library, which starts nothing here"
_WATCHERS = [f"Subprocess{kind}WatcherTests" for kind in ("Fast", "Pidfd", "Safe", "Threaded")]
_EXECUTE = "replaces the private `Popen._execute_child`"

_WAIT_FAILS = (
    "expects what a failed wait for the child's number gives, `0  # exit status unknowable`: with SIGCHLD ignored, the "
    "kernel tells a parent nothing. The guard is the parent and knows the signal. `test_trio` has it with -SIGKILL"
)
_SESSION = "expects the session of the caller; a run always leads a session of its own"
_BACKEND = "replaces the `open_process` of anyio's backend"
_LOOPS = ("asyncio", "asyncio+uvloop", "trio")
_STARTS = ("open_process", "run_process in nursery")

EXCEPTIONS: dict[str, dict[str, str]] = {
    "cpython_subprocess": {
        "MiscTests.test__all__": "compares all names of the module, and ours has imports of its own",
        "MiscTests.test_call_keyboardinterrupt_no_kill": _INTERRUPT,
        "MiscTests.test_context_manager_keyboardinterrupt_no_kill": _INTERRUPT,
        "MiscTests.test_run_keyboardinterrupt_no_kill": _INTERRUPT,
        "POSIXProcessTestCase.test_preexec_errpipe_does_not_double_close_pipes": _EXECUTE,
        "POSIXProcessTestCase.test_send_signal_race": _WAITS,
        "POSIXProcessTestCase.test_stopped": _WAITS,
        "ProcessTestCase.test__use_vfork": _VFORK,
        "ProcessTestCaseNoPoll.test__use_vfork": _VFORK,
    },
    "cpython_asyncio": {
        "GenericWatcherTests.test_create_subprocess_fails_with_inactive_watcher": "no child watcher is needed here",
        **{f"{name}.test_popen_error": _POPEN for name in _WATCHERS},
        **{f"{name}.test_popen_error_with_stdin_pipe": _POPEN for name in _WATCHERS},
    },
    "anyio": {
        **{f"test_process_new_session_sid[{loop}]": _SESSION for loop in _LOOPS},
        **{f"test_arguments_passed_through[{loop}]": _BACKEND for loop in _LOOPS},
    },
    "trio": {
        **{f"test_wait_reapable_fails[{start}]": _WAIT_FAILS for start in _STARTS},
        **{f"test_wait_reapable_fails_no_pidfd[{start}]": _WAIT_FAILS for start in _STARTS},
    },
}

# The beginnings of the reasons for which the owners skip tests on Linux. None of them depends on the drop-in.
SKIPS: dict[str, tuple[str, ...]] = {
    "cpython_subprocess": (
        "Windows",
        "need msvcrt",
        "setgroups() available",
        "setregid() available",
        "setreuid() available",
        "RLIMIT_NPROC had no effect",  # as root
        "The Python shared library cannot be loaded",
        "failed to reach the file descriptor limit",
        "Maybe test trigger a leak",
        "Test is not venv-compatible",
    ),
    "cpython_asyncio": ("bpo-38323",),
    "anyio": ("Skipped: uvloop not available",),
    "trio": (),
}

# So many tests pass, or the suite was not found.
LEAST = {"cpython_subprocess": 280, "cpython_asyncio": 100, "anyio": 44, "trio": 32}
