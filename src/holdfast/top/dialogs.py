"""The dialogs of `top`: a yes-or-no question, one line of text, and the help."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

_CSS = """
QuestionDialog, TextDialog, HelpDialog { align: center middle; background: transparent; }
.dialog {
  width: 76; max-width: 98%; height: auto; max-height: 98%; padding: 0 1;
  border: round ansi_default; background: ansi_default;
}
"""


class QuestionDialog(ModalScreen[bool]):
    """A yes-or-no question. Only `y` means yes, so a stray key cancels nothing."""

    CSS = _CSS
    BINDINGS: ClassVar[list[BindingType]] = [("y", "answer(True)"), ("n,escape,q", "answer(False)")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """The question and its keys."""
        with Vertical(classes="dialog"):
            yield Static(f"{self._text}\n\n  y  yes      n  no", markup=False)

    def action_answer(self, yes: bool) -> None:
        """Close the dialog with the answer."""
        self.dismiss(yes)


class TextDialog(ModalScreen[str]):
    """A field for one line of text; Escape returns an empty text."""

    CSS = _CSS
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "give_up")]

    def __init__(self, text: str, value: str) -> None:
        super().__init__()
        self._text, self._value = text, value

    def compose(self) -> ComposeResult:
        """The prompt and the field."""
        with Vertical(classes="dialog"):
            yield Static(self._text, markup=False)
            yield Input(self._value, compact=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close the dialog with the text (Enter)."""
        self.dismiss(event.value.strip())

    def action_give_up(self) -> None:
        """Close the dialog without a text (Escape)."""
        self.dismiss("")


class HelpDialog(ModalScreen[None]):
    """The list of all keys. Any key closes it."""

    CSS = _CSS

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """The text of the help."""
        with Vertical(classes="dialog"):
            yield Static(self._text, markup=False)

    def on_key(self) -> None:
        """Close the help."""
        self.dismiss(None)
