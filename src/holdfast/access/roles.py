"""Roles of access tokens. Each role may do everything that the roles before it may do."""

from __future__ import annotations

from enum import IntEnum


class Role(IntEnum):
    """What a caller may do. A higher role includes the lower ones."""

    NONE = 0  # no token at all: the paths that are open to everybody
    READ = 1  # see runs, output and events
    SUBMIT = 2  # start runs; end, extend and write to its own runs
    OPERATE = 3  # the same for every run, close sessions, repair
    ADMIN = 4  # tokens, the audit log, and the login of browsers

    @property
    def word(self) -> str:
        """The name of the role, as people write it."""
        return self.name.lower()


ROLES = {role.word: role for role in Role if role}
