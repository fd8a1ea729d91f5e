"""A saga's steps, shown as they run and as they are undone."""

from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from countermand.saga import SagaReport
from countermand.saga.types import Compensation, Outcome, StepReport

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
    """Shows a saga's ledger: in place on a terminal, a line a change in a pipe, nothing when quiet.

    Args:
        console: Where to show it.
        quiet: Show nothing.
    """

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console = console
        self._quiet = quiet
        self._live = Live(console=console, refresh_per_second=8) if console.is_terminal and not quiet else None
        self._table: Table | str = ""
        self._text = ""
        self._said: set[tuple[int, Outcome | None, Compensation]] = set()

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
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
        if self._quiet:
            return
        if self._live:
            self._table = _table(report)
            self._live.update(Group(self._table, self._text))
            return
        for step in report.steps:
            state = (step.no, step.outcome, step.compensation)
            if state not in self._said:
                self._said.add(state)
                self._console.print(_row(step), highlight=False)

    def say(self, piece: str) -> None:
        """Show a piece of the model's text as it comes; in a pipe only the whole answer is of use."""
        self._text += piece
        if self._live:
            self._live.update(Group(self._table, self._text))


def _table(report: SagaReport) -> Table:
    table = Table.grid(padding=(0, 2))
    for step in report.steps:
        outcome, colour = _OUTCOMES[step.outcome]
        undo, undo_colour = _UNDOS[step.compensation]
        order = f" ({step.undo_no})" if step.undo_no and undo else ""
        table.add_row(
            f"  {step.no:>2}", step.tool, Text(outcome, style=colour), Text(f"{undo}{order}", style=undo_colour)
        )
    return table


def _row(step: StepReport) -> str:
    undo = _UNDOS[step.compensation][0]
    return f"  {step.no:>2}  {step.tool}: {_OUTCOMES[step.outcome][0]}" + (f", {undo}" if undo else "")
