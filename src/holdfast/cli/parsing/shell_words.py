"""The command line of `holdfast-sh`, which takes the place of a shell: what kind of work its words ask for.

The words go to the real shell as they are, so this module only has to find out what they mean. The option `-c` may
stand alone, in a cluster (`-lc`, `-euo pipefail -c`), or after other options. A shell itself takes one word without
options for the name of a script. A harness that puts `holdfast-sh` before a command line gives us one such word, too.
The word is a command line then, unless it names a file that could only be a script: one that nobody may execute.
"""

from __future__ import annotations

import os

from ...values.fast_imports import NamedTuple

_WITH_A_WORD = ("--rcfile", "--init-file")  # long options of bash whose value is the next word
_COMMAND = ("--command",)  # fish


class ShellWords(NamedTuple):
    """The words for the real shell. `interactive`: a person will type the commands."""

    words: list[str]
    interactive: bool


def read_shell_words(words: list[str]) -> ShellWords:
    """Find out what these words ask of a shell."""
    if len(words) == 1 and words[0][:1] not in ("-", "+") and not _is_script(words[0]):
        return ShellWords(["-c", *words], interactive=False)
    has_command, forced, at = False, False, 0
    while at < len(words) and words[at][:1] in ("-", "+") and words[at] not in ("-", "--"):
        word = words[at]
        at += 1
        if word.startswith("--"):
            has_command = has_command or word.partition("=")[0] in _COMMAND
            at += word in _WITH_A_WORD
            continue
        has_command = has_command or (word[0] == "-" and "c" in word)
        forced = forced or (word[0] == "-" and "i" in word)
        at += word.count("o") + word.count("O")  # each takes the name of an option from the next words
    at += words[at : at + 1] == ["--"]
    has_script = at < len(words) and "-s" not in words[:at]
    typed = forced or (os.isatty(0) and os.isatty(2))
    return ShellWords(words, interactive=typed and not has_command and not has_script)


def _is_script(word: str) -> bool:
    return os.path.isfile(word) and not os.access(word, os.X_OK)
