"""Harnesses: how each one is told its model, its settings and its servers, and how its shell tool is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .claude import ClaudeCode
from .codex import Codex
from .gemini import GeminiCli
from .opencode import OpenCode

if TYPE_CHECKING:
    from .harness import Harness

HARNESSES: tuple[Harness, ...] = (ClaudeCode(), Codex(), GeminiCli(), OpenCode())
