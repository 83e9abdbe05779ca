"""`holdfast.run` and `holdfast.output`: a run in one call, with text, shell lines, lines as they come, and retries."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from ..values.errors import SpecError
from . import blocking
from .result import TextResult
from .shell_line import shell_argv

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal, Unpack

    from ..journal.reader import Chunk
    from ..values.fields import Text
    from ..values.options import SpecOptions
    from .result import Result
    from .retry import Retry

_UTF8 = "utf-8"


@overload
def run(
    argv: Sequence[Text],
    *,
    input: bytes | None = None,
    on_output: Callable[[Chunk], object] | None = None,
    on_line: Callable[[str], object] | None = None,
    shell: bool = False,
    text: Literal[False] = False,
    encoding: str = _UTF8,
    retry: Retry | None = None,
    **options: Unpack[SpecOptions],
) -> Result: ...


@overload
def run(
    argv: Sequence[Text],
    *,
    input: bytes | str | None = None,
    on_output: Callable[[Chunk], object] | None = None,
    on_line: Callable[[str], object] | None = None,
    shell: bool = False,
    text: Literal[True],
    encoding: str = _UTF8,
    retry: Retry | None = None,
    **options: Unpack[SpecOptions],
) -> TextResult: ...


def run(
    argv: Sequence[Text],
    *,
    input: bytes | str | None = None,  # noqa: A002 - the name subprocess.run taught everybody
    on_output: Callable[[Chunk], object] | None = None,
    on_line: Callable[[str], object] | None = None,
    shell: bool = False,
    text: bool = False,
    encoding: str = _UTF8,
    retry: Retry | None = None,
    **options: Unpack[SpecOptions],
) -> Result | TextResult:
    """Run a command until it is settled and return its result. A command that fails is a result, not an exception.

    `input` is written to the command's stdin, which is then closed. `on_output` gets each piece of output as it comes;
    the pieces are not kept, so memory stays bounded, and the command waits while `on_output` is slow. `on_line` gets
    the lines of stdout instead, as text. With `shell`, `argv` is a line of shell. With `text`, `stdout` and `stderr` of
    the result are text. With `retry`, the command may be run again; the result is that of the last attempt. The other
    options are those of `make_spec`. An exception while waiting, KeyboardInterrupt included, ends the run by its ladder
    and is raised again. A second KeyboardInterrupt kills the run.

    SpecError: the options are wrong. ResourceError, GuardError: the run was not started, and nothing is left of it.
    """
    if shell:
        argv = shell_argv(argv)
    # Without `text`, `blocking.run` refuses an input that is text.
    data: bytes | None = input.encode(encoding) if text and isinstance(input, str) else input  # type: ignore[assignment]
    if on_line is not None or retry is not None:
        result = _special(argv, data, on_output, on_line, encoding, retry, options)
    else:
        result = blocking.run(argv, input=data, on_output=on_output, **options)
    return TextResult(result, encoding) if text else result


def output(argv: Sequence[Text], *, shell: bool = False, encoding: str = _UTF8, **options: Unpack[SpecOptions]) -> str:
    """Run a command and return its stdout as text. RunError, which has the result: the run did not succeed."""
    return run(argv, shell=shell, text=True, encoding=encoding, **options).check().stdout


def _special(
    argv: Sequence[Text],
    data: bytes | None,
    on_output: Callable[[Chunk], object] | None,
    on_line: Callable[[str], object] | None,
    encoding: str,
    retry: Retry | None,
    options: SpecOptions,
) -> Result:
    if on_line is not None and on_output is not None:
        raise SpecError("on_line and on_output were both given", field="on_line", remedy="leave one of them out")

    def attempt() -> Result:
        if on_line is None:
            return blocking.run(argv, input=data, on_output=on_output, **options)
        from .lines import LineGatherer, line_caller  # here, because few callers want lines

        gatherer = LineGatherer("stdout", encoding)  # a new one for each attempt: a line does not go on in the next
        result = blocking.run(argv, input=data, on_output=line_caller(on_line, gatherer), **options)
        for line in gatherer.end():
            on_line(line)
        return result

    return attempt() if retry is None else retry.run(attempt)
