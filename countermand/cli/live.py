"""A saga's steps, shown as they run and as they are undone."""

from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from countermand.saga import SagaReport
from countermand.saga.types import Compensation, Outcome

_OUTCOMES = {
    None: ("running …", "yellow"),
    Outcome.DONE: ("done", "green"),
    Outcome.REFUSED: ("refused", "red"),
    Outcome.UNKNOWN: ("unknown", "magenta"),
}
_UNDOS = {
    Compensation.NONE: ("", ""),
    Compensation.PENDING: ("to be undone", "yellow"),
    Compensation.DONE: ("undone", "cyan"),
    Compensation.NOOP: ("nothing to undo", "cyan"),
    Compensation.FAILED: ("UNDO FAILED", "bold red"),
}


class LiveSteps:
    """Shows a saga's ledger in place on a terminal; nothing in a pipe, or when quiet.

    Args:
        console: Where to show it.
        quiet: Show nothing.
    """

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._live = Live(console=console, refresh_per_second=8) if console.is_terminal and not quiet else None
        self._busy = Spinner("dots", style="yellow")
        self._table = Table.grid()
        self._text = Text()

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
            self._refresh()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            # The whole answer is printed when it is there; its pieces were only to look at.
            self._live.update(self._table)
            self._live.stop()

    def show(self, report: SagaReport) -> None:
        """Show the ledger as it stands now."""
        self._table = _table(report)
        self._refresh()

    def say(self, piece: str) -> None:
        """Show a piece of the model's text as it comes."""
        self._text.append(piece)
        self._refresh()

    def _refresh(self) -> None:
        if self._live:
            self._live.update(Group(self._table, self._text or self._busy))


def _table(report: SagaReport) -> Table:
    table = Table.grid(padding=(0, 2))
    for step in report.steps:
        outcome, colour = _OUTCOMES[step.outcome]
        undo, undo_colour = _UNDOS[step.compensation]
        order = f" ({step.undo_no})" if step.undo_no and undo else ""
        gone = step.compensation in {Compensation.DONE, Compensation.NOOP}
        table.add_row(
            f"  {step.no:>2}",
            Text().append(step.tool, "dim strike" if gone else ""),  # a span, so that the column's rest is not struck
            Text(outcome, style="dim" if gone else colour),
            Text(f"{undo}{order}", style=undo_colour),
        )
    return table
