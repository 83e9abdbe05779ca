"""OpenAPI 3.1 document, made from the table of operations; `python -m holdfast.daemon.http.openapi` prints it."""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from ...web.problems import MEDIA_TYPE, Problem
from .operations import OPERATIONS
from .wire.operation import Operation, list_fields
from .wire.types import OutputFrame

if TYPE_CHECKING:
    from .wire.operation import Header, OperationCall

_PATH_PARAMETERS: dict[str, dict[str, Any]] = {
    "run_id": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,63}$"},
    "session": {"type": "string", "minLength": 1, "maxLength": 128},
    "token": {"type": "string", "pattern": "^[A-Za-z0-9._-]+$", "maxLength": 64},
}
_WORDS = {
    400: "The request cannot be read.",
    401: "The token is missing or wrong.",
    403: "The Host or Origin header does not name this daemon, or the role of the token is too low: see `role`.",
    404: "There is no such run, token or path.",
    408: "The body took too long to arrive.",
    409: "The request conflicts with the current state.",
    413: "The body is too large.",
    415: "The media type of the body is not accepted here.",
    416: "The offset is beyond the end of the output.",
    422: "The request is not valid; `field` names the wrong field.",
    429: "The queue is full, or the client is beyond one of its limits.",
    503: "Try again later: the daemon is draining, or its state directory cannot be written.",
    504: "The guard of the run did not answer in time.",
}
_RETRY = {"Retry-After": {"description": "Seconds to wait before trying again.", "schema": {"type": "integer"}}}
_EVENTS = {
    "operationId": "getEvents",
    "summary": "Stream events (server-sent events); after `Last-Event-ID`, missed events are sent first.",
    "parameters": [
        {"name": "Last-Event-ID", "in": "header", "schema": {"type": "integer", "minimum": 0}},
        *(
            {"name": name, "in": "query", "schema": schema}
            for name, schema in {
                "after": {"type": "integer", "minimum": 0},
                "run_id": {"type": "string", "minLength": 1},
                "session": {"type": "string", "minLength": 1},
                "types": {"type": "string", "description": "comma-separated"},
                "output": {"type": "boolean"},
                "late": {"type": "boolean"},
            }.items()
        ),
    ],
    "responses": {"200": {"description": "The event stream.", "content": {"text/event-stream": {}}}},
}


@cache
def document() -> bytes:
    """The document as JSON; made once."""
    operations = (*OPERATIONS, OPERATION)
    schemas, components = _schemas(operations)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schemas, components)
    _link(paths)
    paths["/v1/events"] = {"get": _with_refusals(_EVENTS, (401, 403, 422, 429))}
    whole = {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": version("holdfast"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "Runs commands as supervised processes. Over TCP every request carries the token.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],  # no token on the Unix socket
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=2)


def _schemas(operations: tuple[Operation, ...]) -> tuple[dict[Any, Any], dict[str, Any]]:
    named = {Problem: None, OutputFrame: None}
    for operation in operations:
        named |= {kind: None for kind in (operation.answer, operation.body, operation.query) if kind is not None}
    kinds = list(named)
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    return dict(zip(kinds, schemas, strict=True)), components


def _operation(operation: Operation, schemas: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": _name(operation),
        "summary": operation.summary,
        "parameters": [*_path(operation.path), *_query(operation, components), *map(_sent, operation.sends)],
        "responses": {},
    }
    if operation.body is not None:
        contents = {kind: {"schema": schemas[operation.body]} if "json" in kind else {} for kind in operation.takes}
        is_needed = any(field.required for field in msgspec.structs.fields(operation.body))
        described["requestBody"] = {"content": contents, "required": is_needed}
    for status in (operation.status, *operation.also):
        described["responses"][str(status)] = _success(operation, schemas)
    return _with_refusals(described, _refusals(operation))


def _link(paths: dict[str, dict[str, Any]]) -> None:
    """Add links from the answer of `POST /v1/runs` to every operation on that run."""
    about_one = (one for path, methods in paths.items() if "{run_id}" in path for one in methods.values())
    links = {
        one["operationId"]: {"operationId": one["operationId"], "parameters": {"run_id": "$response.body#/run_id"}}
        for one in about_one
    }
    for status in ("200", "201"):
        paths["/v1/runs"]["post"]["responses"][status]["links"] = links


def _name(operation: Operation) -> str:
    """The operationId: `GET /v1/runs/{run_id}/wait` is getRunWait, in the singular because a run id is given."""
    words = re.findall(r"[a-z]+", re.sub(r"s/\{[a-z_]+\}", "", operation.path.removeprefix("/v1")))
    return operation.method.lower() + "".join(word.capitalize() for word in words)


def _path(path: str) -> list[dict[str, Any]]:
    names = re.findall(r"\{([a-z_]+)\}", path)
    return [{"name": name, "in": "path", "required": True, "schema": _PATH_PARAMETERS[name]} for name in names]


def _query(operation: Operation, components: dict[str, Any]) -> list[dict[str, Any]]:
    if operation.query is None:
        return []
    described = components[operation.query.__name__]
    needed = described.get("required", ())
    lists = list_fields(operation.query)
    return [
        {
            "name": name,
            "in": "query",
            "schema": schema,
            **({"required": True} if name in needed else {}),
            **({"style": "form", "explode": True} if name in lists else {}),
        }
        for name, schema in described["properties"].items()
    ]


def _sent(header: Header) -> dict[str, Any]:
    return {"name": header.name, "in": "header", "description": header.description, "schema": header.schema}


def _success(operation: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {kind: {} for kind in operation.gives}
    if "application/x-ndjson" in content:
        content["application/x-ndjson"] = {"x-itemSchema": {"$ref": "#/components/schemas/OutputFrame"}}
    if operation.answer is not None:
        content["application/json"] = {"schema": schemas[operation.answer]}
    headers = {one.name: {"description": one.description, "schema": one.schema} for one in operation.returns}
    return {"description": operation.summary, "content": content, **({"headers": headers} if headers else {})}


def _refusals(operation: Operation) -> tuple[int, ...]:
    found = {401, 403, 422, 429, *operation.errors}
    if operation.body is not None:
        found |= {400, 408, 413, 415}
    if "{run_id}" in operation.path:
        found |= {404}
    return tuple(sorted(found))


def _with_refusals(described: dict[str, Any], statuses: tuple[int, ...]) -> dict[str, Any]:
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    refusals = {
        str(status): {
            "description": _WORDS[status],
            "content": {MEDIA_TYPE: problem},
            **({"headers": _RETRY} if status in (429, 503) else {}),
        }
        for status in statuses
    }
    return {**described, "responses": {**described["responses"], **refusals}}


async def show(_call: OperationCall) -> Response:
    """Answer with the document."""
    return Response(document(), media_type="application/json")


OPERATION = Operation("GET", "/openapi.json", show, "This document.", dict[str, Any])


def main() -> None:
    """Print the document."""
    sys.stdout.buffer.write(document() + b"\n")


if __name__ == "__main__":
    main()
