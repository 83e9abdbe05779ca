"""A command that does not want to end: it ignores SIGTERM and leaves a daemon behind.

Usage: misbehave.py DAEMON_PID_FILE. The daemon is what orphaned helpers really look like: forked twice, in a session of
its own, with no descriptor and no environment variable that would lead back to the command.
"""

import os
import signal
import sys
import time


def leave_daemon_behind(pid_file: str) -> None:
    """Start a process outside our children, our group and our session; returns when it is ready."""
    ready, standing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        with open(pid_file, "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
        os.closerange(0, standing)
        os.close(standing)
        os.execve("/bin/sleep", ["sleep", "3600"], {})
    os.close(standing)
    os.wait()
    os.read(ready, 1)  # end of file: the daemon has closed everything
    os.close(ready)


def main() -> None:
    """Misbehave until killed."""
    signal.signal(signal.SIGTERM, lambda *_: print("child: SIGTERM? No, thank you.", flush=True))
    leave_daemon_behind(sys.argv[1])
    print("child: I left a daemon behind, and now I work for ever", flush=True)
    for step in range(1, 1000):
        time.sleep(0.5)
        print(f"child: step {step}", flush=True)


if __name__ == "__main__":
    main()
