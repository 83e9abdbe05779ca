"""Fast imports: named tuples without `typing`, signals without `enum`, abstract classes without `collections`.

Importing `typing` and `enum` takes as long as starting the interpreter; `collections.abc` takes a tenth of that. The
interpreter itself has loaded all we need of them. Type checkers see `typing.NamedTuple`, `signal` and
`collections.abc`. At run time a named tuple has fields by name, defaults, `_fields`, `_replace`, `_asdict` and a
readable `repr`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as signal
    from collections.abc import Iterable as Iterable
    from collections.abc import Mapping as Mapping
    from collections.abc import Sequence as Sequence
    from typing import NamedTuple as NamedTuple
else:
    import _signal as signal  # noqa: F401
    from _collections import _tuplegetter
    from _collections_abc import Iterable, Mapping, Sequence  # noqa: F401

    class _Making(type):
        def __new__(cls, name, bases, namespace):
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            fields = tuple(namespace.get("__annotations__", ()))
            defaults = {field: namespace[field] for field in fields if field in namespace}
            members = {field: _tuplegetter(index, "") for index, field in enumerate(fields)}
            return type(name, (tuple,), {**_METHODS, **namespace, **members, **_new(name, fields, defaults)})

    class NamedTuple(metaclass=_Making):
        pass

    def _new(name, fields, defaults):
        made = _function(_code(fields), globals(), "__new__", tuple(defaults.values()))
        made.__qualname__ = f"{name}.__new__"
        return {
            "__slots__": (),
            "_fields": fields,
            "_field_defaults": defaults,
            "__match_args__": fields,
            "__new__": made,
        }

    def _code(fields):
        if len(fields) <= len(_CODES):
            return _CODES[len(fields) - 1].replace(co_varnames=("_cls", *fields))
        return eval(f"lambda _cls, {', '.join(fields)}: _tuple(_cls, ({', '.join(fields)},))").__code__

    _tuple = tuple.__new__
    _function = type(_new)
    # `__new__` for one to nine fields, which only need their names. `holdfast run` makes 25 such classes, and compiling
    # the text of each would cost a millisecond; these are compiled with this module.
    _CODES = [
        made.__code__
        for made in (
            lambda _cls, a: _tuple(_cls, (a,)),
            lambda _cls, a, b: _tuple(_cls, (a, b)),
            lambda _cls, a, b, c: _tuple(_cls, (a, b, c)),
            lambda _cls, a, b, c, d: _tuple(_cls, (a, b, c, d)),
            lambda _cls, a, b, c, d, e: _tuple(_cls, (a, b, c, d, e)),
            lambda _cls, a, b, c, d, e, f: _tuple(_cls, (a, b, c, d, e, f)),
            lambda _cls, a, b, c, d, e, f, g: _tuple(_cls, (a, b, c, d, e, f, g)),
            lambda _cls, a, b, c, d, e, f, g, h: _tuple(_cls, (a, b, c, d, e, f, g, h)),
            lambda _cls, a, b, c, d, e, f, g, h, i: _tuple(_cls, (a, b, c, d, e, f, g, h, i)),
        )
    ]

    def _make(cls, values):
        made = tuple.__new__(cls, values)
        if len(made) != len(cls._fields):
            raise TypeError(f"{cls.__name__} takes {len(cls._fields)} values, not {len(made)}")
        return made

    def _replace(self, /, **changes):
        made = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"{type(self).__name__} has no {', '.join(changes)}")
        return made

    def _asdict(self):
        return dict(zip(self._fields, self, strict=True))

    def _repr(self):
        return f"{type(self).__name__}({', '.join(f'{f}={v!r}' for f, v in zip(self._fields, self, strict=True))})"

    def _getnewargs(self):
        return tuple(self)

    _METHODS = {
        "_make": classmethod(_make),
        "_replace": _replace,
        "_asdict": _asdict,
        "__repr__": _repr,
        "__getnewargs__": _getnewargs,
    }
