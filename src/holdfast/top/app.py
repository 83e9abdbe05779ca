"""`holdfast top` itself: a table of runs above, one of them below, and keys.

One worker follows the source's changes and looks at the runs again, one follows the output of the selected run; both
show what went wrong and go on. Everything that comes from a run is escaped (wording/plain.py, log_text.py) and given to
textual as `Text` or with `markup=False`: neither markup nor a control sequence can get in. The terminal's own colours
are used and only repeat what words say; with NO_COLOR there are none, and the cursor is reversed text.
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
_LEAST_S = 0.1  # between two looks, however much happens
_HELP = """\
up, down, j, k    choose a run       tab   to the lower part and back
l  its log        e  its evidence    i  its report
f  follow the log, or not            enter  the lower part larger, or not

c  cancel it: it is asked to end     C  cancel now: it is killed
x  move its deadline

/   filter: words, or status:failed,lost cause:user state:running
    session:NAME name:NAME label:NAME=VALUE; escape takes it away
s   sort by the next of: newest, oldest, state, time, output, name
t   nested runs below the run that started them, or not
a   with the runs that ended, or without

q   quit; no run ends by that"""


class _DetailText(Static):
    """Tells when its size is another: only then is its end where one can scroll to."""

    def __init__(self, resized: Callable[[], None]) -> None:
        super().__init__(id="text", markup=False)
        self._resized = resized

    def on_resize(self) -> None:
        """It was laid out, whenever that was: a scroll that was asked for at the change may have come before."""
        self._resized()


class Top(App[None]):
    """The application. It closes nothing of the source's: whoever opened that does."""

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
        # In the footer, as many as 80 columns have room for; all of them are in the help.
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
        """The parts, from above."""
        yield Static(id="head", markup=False)
        yield Static(id="note", markup=False)
        yield Input(id="filter", compact=True, placeholder="words, status:failed, session:NAME")
        yield RunTable(id="runs")
        yield Static(id="title", markup=False)
        with VerticalScroll(id="detail"):
            yield _DetailText(self.keep_to_end)
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Begin to look."""
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
        """Whether there is anything to draw on: workers go on for a moment while the parts are taken away."""
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
        """While the log is followed, its end is what is seen."""
        if self._is_there and self.shows == "log" and self.follows:
            self.screen_stack[0].query_one("#detail", VerticalScroll).scroll_end(animate=False)

    @property
    def _table(self) -> RunTable:
        return self.screen_stack[0].query_one("#runs", RunTable)

    @property
    def report(self) -> Report | None:
        """That of the selected run."""
        return next((one for one in self.snapshot.runs if one["run_id"] == self.selected), None)

    # Choosing.

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """The cursor has moved."""
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
        """Enter."""
        self.screen.toggle_class("large")
        if self.screen.has_class("large"):
            self.query_one("#detail").focus()

    def action_show(self, what: str) -> None:
        """What the lower part shows."""
        self.shows = what
        self.query_one("#detail", VerticalScroll).scroll_home(animate=False)
        self._begin_detail()

    def action_follow(self) -> None:
        """Stay at the end of the log, or not."""
        self.follows = not self.follows
        self._logged = None
        self._begin_detail()

    def action_sort(self) -> None:
        """The next order."""
        self.view = self.view._replace(sort=SORTS[(SORTS.index(self.view.sort) + 1) % len(SORTS)])
        self._draw()

    def action_tree(self) -> None:
        """Nested, or flat."""
        self.view = self.view._replace(tree=not self.view.tree)
        self._draw()

    def action_ended(self) -> None:
        """With those that ended, or without."""
        self.view = self.view._replace(ended=not self.view.ended)
        self._draw()

    def action_down(self) -> None:
        """As the arrow."""
        self._table.action_cursor_down()

    def action_up(self) -> None:
        """As the arrow."""
        self._table.action_cursor_up()

    def action_filter(self) -> None:
        """Type one."""
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Each key narrows it."""
        if event.input.id == "filter":
            self.view = self.view._replace(text=event.value)
            self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter: keep it, and back to the table."""
        if event.input.id == "filter":
            event.input.display = bool(event.value)
            self._table.focus()

    def action_reset(self) -> None:
        """Escape: no filter, and small again."""
        field = self.query_one("#filter", Input)
        field.value = ""
        field.display = False
        self.screen.remove_class("large")
        self._table.focus()

    # Asking.

    def action_cancel(self, now: bool) -> None:
        """Ask for its end, after a yes."""
        report = self.report
        if report is None or report.get("state") == "settled":
            self.notify("This run is over: there is nothing to cancel.", markup=False)
            return
        how = "Its processes are killed at once." if now else "It is asked to end, and has its grace for that."
        name = f" ({plain(report['name'])})" if report.get("name") else ""
        question = f"Cancel {'now ' if now else ''}run {report['run_id']}{name}?\n{how}"
        run_id = report["run_id"]

        def answered(yes: bool | None) -> None:
            if yes:
                self.run_worker(self._ask(self.source.cancel(run_id, now=now), f"{run_id} is asked to end"))

        self.push_screen(QuestionDialog(question), answered)

    def action_extend(self) -> None:
        """Move its deadline."""
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
        """The help."""
        self.push_screen(HelpDialog(_HELP))
