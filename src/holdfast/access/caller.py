"""The caller of a request: how the daemon knows the client, and what the client may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .roles import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

CALLER = "holdfast.caller"  # in `scope["state"]`: the `Caller`, set by the access checks
ABOUT = "holdfast.about"  # in `scope["state"]`: what the audit log says beside the path, without a secret
ABOUT_RUN = "holdfast.about_run"  # in `scope["state"]`: the run of the record, if neither path nor answer names it
UNCHANGED = "holdfast.unchanged"  # in `scope["state"]`: true if the request changed nothing, and needs no record
OWNER_LABEL = "holdfast.token"  # the label of a run that names the token it was posted with


class Caller(NamedTuple):
    """The client of a request, known `by` its socket, a token, a session (of a browser), or nothing."""

    by: str
    role: Role
    token: str | None = None  # the name of its token; None for the socket and for the owner's token in STATE/token
    session: str | None = None  # the only session whose runs it sees; None: all runs
    digest: str | None = None  # the hash of its token, if the token has a name

    @property
    def is_unbounded(self) -> bool:
        """Whether the caller may ask for everything."""
        return self.role is Role.ADMIN and self.session is None

    def owns(self, report: Mapping[str, Any]) -> bool:
        """Whether the run was posted with the caller's token, or with an earlier token of the same name."""
        return self.token is not None and report["labels"].get(OWNER_LABEL) == self.token


STRANGER = Caller("nothing", Role.NONE)  # on a path that is open to everybody


def caller_of(scope: Mapping[str, Any]) -> Caller:
    """The caller of the request with this ASGI scope."""
    found: Caller = scope["state"][CALLER]
    return found
