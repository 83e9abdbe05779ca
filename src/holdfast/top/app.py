"""The screen of `holdfast top`: a table of runs above, the details of the selected run below, and the keys.

One worker follows the changes of the source and reads the runs again; another follows the output of the selected run.
Both show an error and go on. Text from a run is escaped (wording/plain.py, log_text.py) and given to textual as `Text`
or with `markup=False`, so neither markup nor a control sequence gets in. The screen uses the terminal's own colours,
which only repeat what the words say. With NO_COLOR there are no colours, and the cursor is reversed text.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import App
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Footer, Input, Static

from ..values.durations import parse_duration
from ..values.errors import HoldfastError
from ..wording.plain import plain
from . import run_details
from .dialogs import HelpDialog, QuestionDialog, TextDialog
from .log_text import log_text
from .run_rows import SORTS, ViewSettings, counts, rows
from .run_source import Snapshot
from .run_table import RunTable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from .run_source import Report, RunSource

_PARTS = 5
_LEAST_S = 0.1  # the shortest time between two looks
_HELP = """\
up, down, j, k    choose a run       tab   to the lower part and back
l  its log        e  its evidence    i  its report
f  follow the log, or not            enter  enlarge the lower part

c  cancel: ask the run to end        C  cancel now: kill the run
x  move its deadline

/   filter: words, or status:failed,lost cause:user state:running
    session:NAME name:NAME label:NAME=VALUE port:3000; escape removes it
s   sort by the next of: newest, oldest, state, time, output, name
t   show nested runs below the run that started them, or not
a   show ended runs, or not

q   quit; the runs go on"""


class _DetailText(Static):
    """The text of the lower part. It tells when its size has changed, because only then can one scroll to its end."""

    def __init__(self, resized: Callable[[], None]) -> None:
        super().__init__(id="text", markup=False)
        self._resized = resized

    def on_resize(self) -> None:
        """Scroll again after the layout: a scroll at the time of the change may have come too early."""
        self._resized()


class Top(App[None]):
    """The application. The caller opens and closes the source."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen, #runs, #detail, Footer { background: ansi_default; color: ansi_default; }
    #head, #title { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    #head { text-style: bold; }
    #note { height: auto; display: none; text-style: bold; }
    #filter { display: none; height: 1; }
    #runs { height: 1fr; }
    #title { text-style: underline; }
    #detail { height: 1fr; }
    .large #runs { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        # The footer shows as many keys as 80 columns have room for; the help lists all.
        ("question_mark", "keys", "Help"),
        ("q", "quit", "Quit"),
        ("c", "cancel(False)", "Cancel"),
        ("C", "cancel(True)", "Now"),
        ("x", "extend", "Extend"),
        ("slash", "filter", "Filter"),
        ("s", "sort", "Sort"),
        ("t", "tree", "Tree"),
        ("l", "show('log')", "Log"),
        ("e", "show('evidence')", "Evidence"),
        Binding("i", "show('report')", "Report", show=False),
        Binding("f", "follow", "Follow", show=False),
        Binding("a", "ended", "Ended", show=False),
        Binding("j", "down", "Down", show=False),
        Binding("k", "up", "Up", show=False),
        Binding("escape", "reset", "No filter", show=False),
    ]

    def __init__(self, source: RunSource) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.source = source
        self.view = ViewSettings()
        self.shows = "log"
        self.follows = True
        self.snapshot = Snapshot([])
        self.selected: str | None = None
        self._logged: tuple[str, bytes] | None = None

    def compose(self) -> ComposeResult:
        """The parts of the screen, from the top down."""
        yield Static(id="head", markup=False)
        yield Static(id="note", markup=False)
        yield Input(id="filter", compact=True, placeholder="words, status:failed, session:NAME")
        yield RunTable(id="runs")
        yield Static(id="title", markup=False)
        with VerticalScroll(id="detail"):
            yield _DetailText(self.keep_to_end)
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Focus the table, and start to read the runs."""
        self.query_one("#runs").focus()
        self.run_worker(self._look_on(), group="runs")
        self.set_interval(1.0, self._draw)

    # Looking.

    async def _look_on(self) -> None:
        await self._look()
        async with contextlib.aclosing(self.source.changes()) as changes:
            async for _ in changes:
                await self._look()
                await asyncio.sleep(_LEAST_S)

    async def _look(self) -> None:
        try:
            self.snapshot = await self.source.runs()
        except HoldfastError as error:
            self.snapshot = Snapshot(self.snapshot.runs, f"not up to date: {error}")
        self._draw()

    async def _follow(self, run_id: str) -> None:
        await self._read(run_id)
        async with contextlib.aclosing(self.source.output_changes(run_id)) as changes:
            async for _ in changes:
                await self._read(run_id)
                await asyncio.sleep(_LEAST_S)

    async def _read(self, run_id: str) -> None:
        try:
            tail = await self.source.tail(run_id)
        except HoldfastError as error:
            self._put(Text(plain(error)))
            return
        if (run_id, tail.data) != self._logged:
            self._logged = run_id, tail.data
            self._put(log_text(tail.data, cut=tail.cut))

    # Showing.

    @property
    def _is_there(self) -> bool:
        """Whether the parts of the screen exist: workers go on for a moment while textual removes the parts."""
        stack = self.screen_stack
        return bool(stack) and len(stack[0].query("#head, #note, #runs, #title, #text")) == _PARTS

    def _draw(self) -> None:
        if not self._is_there:
            return
        head = f"holdfast top  {counts(self.snapshot.runs)}  sort: {self.view.sort}  {plain(self.source.where)}"
        self.screen_stack[0].query_one("#head", Static).update(head)
        note = self.screen_stack[0].query_one("#note", Static)
        note.display = bool(self.snapshot.note)
        note.update(plain(self.snapshot.note))
        self._select(self._table.show(rows(self.snapshot.runs, self.view), self.selected))
        self._draw_detail()

    def _draw_detail(self) -> None:
        report = self.report
        if report is None:
            self._put(Text(""))
        elif self.shows != "log":
            self._put(run_details.evidence(report) if self.shows == "evidence" else run_details.fields(report))
        following = "  following" if self.shows == "log" and self.follows else ""
        text = "no run" if report is None else f"{self.shows} of {run_details.title(report)}{following}"
        self.screen_stack[0].query_one("#title", Static).update(plain(text))

    def _put(self, text: Text) -> None:
        if not self._is_there:
            return
        self.screen_stack[0].query_one("#text", Static).update(text)
        self.keep_to_end()

    def keep_to_end(self) -> None:
        """Scroll to the end of the log, if the user follows it."""
        if self._is_there and self.shows == "log" and self.follows:
            self.screen_stack[0].query_one("#detail", VerticalScroll).scroll_end(animate=False)

    @property
    def _table(self) -> RunTable:
        return self.screen_stack[0].query_one("#runs", RunTable)

    @property
    def report(self) -> Report | None:
        """The report of the selected run; None when no run is selected."""
        return next((one for one in self.snapshot.runs if one["run_id"] == self.selected), None)

    # Choosing.

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Select the run under the cursor."""
        self._select(event.row_key.value)

    def _select(self, run_id: str | None) -> None:
        if run_id == self.selected:
            return
        self.selected = run_id
        self._begin_detail()

    def _begin_detail(self) -> None:
        self._logged = None
        self.workers.cancel_group(self, "log")
        self._put(Text(""))
        if self.selected is not None and self.shows == "log":
            self.run_worker(self._follow(self.selected), group="log")
        self._draw_detail()

    def on_data_table_row_selected(self) -> None:
        """Enlarge the lower part, or shrink it again (Enter)."""
        self.screen.toggle_class("large")
        if self.screen.has_class("large"):
            self.query_one("#detail").focus()

    def action_show(self, what: str) -> None:
        """Choose what the lower part shows: log, evidence or report."""
        self.shows = what
        self.query_one("#detail", VerticalScroll).scroll_home(animate=False)
        self._begin_detail()

    def action_follow(self) -> None:
        """Follow the end of the log, or stop following it."""
        self.follows = not self.follows
        self._logged = None
        self._begin_detail()

    def action_sort(self) -> None:
        """Sort by the next order."""
        self.view = self.view._replace(sort=SORTS[(SORTS.index(self.view.sort) + 1) % len(SORTS)])
        self._draw()

    def action_tree(self) -> None:
        """Show nested runs below their parents, or a flat list."""
        self.view = self.view._replace(tree=not self.view.tree)
        self._draw()

    def action_ended(self) -> None:
        """Show ended runs, or hide them."""
        self.view = self.view._replace(ended=not self.view.ended)
        self._draw()

    def action_down(self) -> None:
        """Move the cursor down, as the arrow key does."""
        self._table.action_cursor_down()

    def action_up(self) -> None:
        """Move the cursor up, as the arrow key does."""
        self._table.action_cursor_up()

    def action_filter(self) -> None:
        """Open the field for a filter."""
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Apply the filter after each key."""
        if event.input.id == "filter":
            self.view = self.view._replace(text=event.value)
            self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter, and go back to the table (Enter)."""
        if event.input.id == "filter":
            event.input.display = bool(event.value)
            self._table.focus()

    def action_reset(self) -> None:
        """Remove the filter, and shrink the lower part again (Escape)."""
        field = self.query_one("#filter", Input)
        field.value = ""
        field.display = False
        self.screen.remove_class("large")
        self._table.focus()

    # Asking.

    def action_cancel(self, now: bool) -> None:
        """Cancel the selected run, after a yes."""
        report = self.report
        if report is None or report.get("state") == "settled":
            self.notify("This run is over: there is nothing to cancel.", markup=False)
            return
        how = "Its processes are killed at once." if now else "It is asked to end, and has its grace to do so."
        name = f" ({plain(report['name'])})" if report.get("name") else ""
        question = f"Cancel {'now ' if now else ''}run {report['run_id']}{name}?\n{how}"
        run_id = report["run_id"]

        def answered(yes: bool | None) -> None:
            if yes:
                self.run_worker(self._ask(self.source.cancel(run_id, now=now), f"{run_id} is asked to end"))

        self.push_screen(QuestionDialog(question), answered)

    def action_extend(self) -> None:
        """Ask for a duration, and move the deadline of the selected run."""
        run_id = self.selected
        if run_id is None:
            return

        def answered(text: str | None) -> None:
            if not text:
                return
            try:
                seconds = parse_duration(text, field="duration")
            except HoldfastError as error:
                self.notify(plain(error), severity="error", markup=False)
                return
            self.run_worker(self._ask(self.source.extend(run_id, seconds), f"{run_id} has {text} more"))

        self.push_screen(TextDialog(f"How much more time for run {run_id}?", "10m"), answered)

    async def _ask(self, request: Awaitable[None], done: str) -> None:
        try:
            await request
        except HoldfastError as error:
            self.notify(plain(error), severity="error", markup=False)
        else:
            self.notify(plain(done), markup=False)
        await self._look()

    def action_keys(self) -> None:
        """Show all keys."""
        self.push_screen(HelpDialog(_HELP))
