"""Rebinding: a function of another module that sees other names, so that its code stays the other module's own."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

_Function = TypeVar("_Function", bound="Callable[..., Any]")


def rebound(function: _Function, **names: object) -> _Function:
    """The same function, for which these global names mean something else. The original does not change.

    Names that its module changes later are not seen: the function has a copy of the module's names.
    """
    original = cast("FunctionType", function)
    again = FunctionType(
        original.__code__,
        {**original.__globals__, **names},
        original.__name__,
        original.__defaults__,
        original.__closure__,
    )
    again.__kwdefaults__ = original.__kwdefaults__
    again.__doc__ = original.__doc__
    return cast("_Function", again)
