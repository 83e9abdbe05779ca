"""Tokens over HTTP: make one, list them, revoke one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from ....access.caller import ABOUT
from ....access.tokens import NoTokenError, TokenExistsError
from ....web.problems import NOT_FOUND, TOKEN_EXISTS, ProblemError
from ..wire.operation import Operation, OperationCall, answer
from ..wire.types import Time
from .filters import ns_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from ....access.tokens import TokenFile

_NAME = "^[A-Za-z0-9._-]+$"


class Token(msgspec.Struct):
    """A token without its text. `session`: it sees only runs of this session. `expired`: its end date has passed."""

    name: str
    role: Literal["read", "submit", "operate", "admin"]
    session: str | None
    created_at: Time
    expires_at: Time | None
    expired: bool


class NewToken(Token):
    """A new token with its text, which is shown only once."""

    token: str


class TokenList(msgspec.Struct):
    """Every token, by name."""

    tokens: list[Token]


class CreateToken(msgspec.Struct, forbid_unknown_fields=True):
    """The token to make."""

    name: Annotated[str, Meta(min_length=1, max_length=64, pattern=_NAME)]
    role: Literal["read", "submit", "operate", "admin"]
    session: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    expires_at: Time | None = None


async def listing(call: OperationCall) -> Response:
    """List every token."""
    found = await asyncio.to_thread(tokens_of(call).all)
    return answer(TokenList([msgspec.convert(token.shown(), Token) for token in found]))


async def create(call: OperationCall) -> Response:
    """Make a token. ProblemError 409: there is one of this name."""
    asked: CreateToken = call.body
    expires_ns = ns_of(asked.expires_at, "expires_at")
    tokens = tokens_of(call)
    try:
        token, secret = await asyncio.to_thread(
            tokens.create, asked.name, asked.role, session=asked.session, expires_ns=expires_ns
        )
    except TokenExistsError as error:
        raise ProblemError(TOKEN_EXISTS, error.message, field="name", remedy=error.remedy) from None
    bound = "" if token.session is None else f", session {token.session}"
    call.request.scope["state"][ABOUT] = f"token {token.name}, role {token.role.word}{bound}"
    return answer(msgspec.convert({**token.shown(), "token": secret}, NewToken), 201)


async def revoke(call: OperationCall) -> Response:
    """Revoke a token; it is refused from the next request on. ProblemError 404: there is none of this name."""
    try:
        token = await asyncio.to_thread(tokens_of(call).revoke, call.request.path_params["token"])
    except NoTokenError as error:
        raise ProblemError(NOT_FOUND, error.message, remedy="see GET /v1/tokens") from None
    return answer(msgspec.convert(token.shown(), Token))


def tokens_of(call: OperationCall) -> TokenFile:
    """The tokens of this daemon."""
    found: TokenFile = call.request.app.state.tokens
    return found


OPERATIONS = (
    Operation("GET", "/v1/tokens", listing, "List the tokens, without their texts.", TokenList, errors=(503,)),
    Operation("POST", "/v1/tokens", create, "Make a token.", NewToken, 201, body=CreateToken, errors=(409, 503)),
    Operation("DELETE", "/v1/tokens/{token}", revoke, "Revoke a token.", Token, errors=(404, 503)),
)
