"""A tool that refuses unknown arguments, and explains wrong ones in one line that a model can act on.

The `mcp` library ignores unknown arguments: a `timeout` that should have been `timeout_s` would silently be no timeout.
Its own text for wrong arguments is a paragraph with a link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from pydantic import ConfigDict, ValidationError

from ..values.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mcp.server.mcpserver import Context
    from mcp_types import ToolAnnotations
    from pydantic_core import ErrorDetails

_LONGEST_NAME = 80
_MOST_NAMES = 5
_MOST_NUMBER = 1e15


class StrictTool(Tool):
    """A tool that accepts only the arguments it knows."""

    @classmethod
    def of(cls, fn: Callable[..., Any], annotations: ToolAnnotations, title: str, name: str | None = None) -> Tool:
        """Make the tool that calls `fn`."""
        tool = cls.from_function(fn, name=name, title=title, annotations=annotations)
        known = tool.fn_metadata.arg_model
        strict = type(known.__name__, (known,), {"model_config": ConfigDict(extra="forbid"), "__module__": __name__})
        tool.fn_metadata.arg_model = strict
        tool.parameters = tool.fn_metadata.arg_model.model_json_schema(by_alias=True)
        return tool

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:
        """Call the tool. ToolError: the call failed, or the arguments are wrong."""
        try:
            return await super().run(arguments, context, convert_result)
        except UnexpectedToolError:
            raise
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            wrong = _wrong(self.name, list(self.parameters["properties"]), error.__cause__.errors(include_url=False))
            raise ToolError(f"Error executing tool {self.name}: {wrong}") from None


def _wrong(tool: str, known: list[str], found: list[ErrorDetails]) -> SpecError:
    """The error for wrong arguments. Unknown names come first: other arguments may be wrong because of them."""
    unknown = [repr(_place(error)) for error in found if error["type"] == "extra_forbidden"]
    if unknown:
        what = f"there is no argument {' and no '.join(unknown[:_MOST_NAMES])}"
        return SpecError(what, remedy=f"{tool} takes {', '.join(known)}")
    first, place, more = found[0], _place(found[0]), f"; {len(found) - 1} more are wrong" if len(found) > 1 else ""
    if first["type"] == "missing":
        return SpecError(f"{place} is missing", remedy=f"give it{more}")
    value = first["input"]
    # Only short numbers at the top level are repeated: a nested value, as in `env`, may be secret.
    is_told = isinstance(value, int | float) and abs(value) < _MOST_NUMBER and len(first["loc"]) == 1
    said = str(value) if is_told else "this"
    remedy = f"give a value that is {first['msg'].removeprefix('Input should be ')}{more}"
    return SpecError(f"{place} cannot be {said}", remedy=remedy)


def _place(error: ErrorDetails) -> str:
    return ".".join(str(part) for part in error["loc"])[:_LONGEST_NAME]
