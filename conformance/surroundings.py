"""The surroundings in which the adapter of a row starts, and which last until the cell ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.children import Children
from tests.support.silent_filesystem import SilentFilesystem

from .places import CHILDREN

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

SECRET_FD = 9
_NEW_PID_NAMESPACE = 0x20000000
_VARIABLES, _VARIABLE_BYTES = 16, 1 << 16


class Surroundings:
    """What the adapter inherits: descriptors, variables, a namespace; and the files that are made for the row."""

    def __init__(self, kind: str | None, directory: str) -> None:
        self.kind, self.directory = kind, directory
        self.pass_fds: tuple[int, ...] = ()
        self.environment: dict[str, str] = {}
        self.filesystem: SilentFilesystem | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        match self.kind:
            case "secret":
                self._open_secret()
            case "large-environment":
                self.environment = {f"LARGE_{number}": "x" * _VARIABLE_BYTES for number in range(_VARIABLES)}
            case "text-busy":
                program = Path(shutil.copy("/bin/true", f"{self.directory}/busy"))
                self._stack.enter_context(program.open("r+b"))
            case "silence":
                program = Children(CHILDREN).program("exits_on_term")
                self.filesystem = SilentFilesystem(Path(self.directory, "silent"), program)
                self._stack.enter_context(self.filesystem)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def enter_child(self) -> None:
        """Called in a new process, before it becomes the adapter."""
        if self.kind == "pid-namespace" and ctypes.CDLL(None, use_errno=True).unshare(_NEW_PID_NAMESPACE):
            raise OSError(ctypes.get_errno(), "unshare")

    def _open_secret(self) -> None:
        """An open descriptor that a new process inherits, and should not pass on."""
        secret = os.open(f"{self.directory}/secret", os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(secret, SECRET_FD)
        os.close(secret)
        self._stack.callback(os.close, SECRET_FD)
        self.pass_fds = (SECRET_FD,)
