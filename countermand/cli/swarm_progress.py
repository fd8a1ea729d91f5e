"""A swarm's progress: in place on a terminal; in a pipe the batch's name, why it pauses, and the last word."""

from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from countermand.agents.lines import Amounts
from countermand.agents.swarm import SwarmStatus
from countermand.saga import SagaState
from countermand.saga.types import in_major_units

BAR = 24
"""Characters of the bar."""

_STATES = (
    (SagaState.COMMITTED, "committed", "green"),
    (SagaState.COMPENSATED, "compensated", "yellow"),
    (SagaState.NEEDS_ATTENTION, "need attention", "red"),
)


class SwarmProgress:
    """Shows how far a swarm is.

    Args:
        console: Where to show it.
        batch: The batch's id, which one needs to go on with it.
        quiet: Show nothing.
    """

    def __init__(self, console: Console, batch: str, *, quiet: bool) -> None:
        self._console = console
        self._batch = batch
        self._quiet = quiet
        self._last: SwarmStatus | None = None
        self._began: tuple[float, int] | None = None
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        if not self._quiet:
            self._console.print(f"batch {self._batch}", style="dim")
            if self._console.is_terminal:
                self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()
        if self._last is not None and not self._quiet:
            self._console.print(told(self._last), soft_wrap=True)

    def show(self, now: SwarmStatus) -> None:
        """Show the swarm as it stands now."""
        pauses = now.paused and now.paused != (self._last.paused if self._last else "")
        self._last = now
        if self._live.is_started:
            self._live.update(Group(self._bar(now), _counts(now)), refresh=True)
        elif pauses and not self._quiet:
            self._console.print(told(now), soft_wrap=True)

    def _bar(self, now: SwarmStatus) -> Table:
        bar = ProgressBar(total=now.batch.lines, completed=now.ended, width=BAR)
        row = Table.grid(padding=(0, 2))
        row.add_row(bar, f"{now.ended:,} of {now.batch.lines:,}", f"{now.running} running", self._pace(now))
        return row

    def _pace(self, now: SwarmStatus) -> str:
        """Lines a second, and the time left at that rate, since this command watches."""
        if self._began is None:
            self._began = monotonic(), now.ended
        since, before = self._began
        done = now.ended - before
        if now.paused:
            return "paused"
        if not done:
            return ""
        rate = done / (monotonic() - since)
        left = round((now.batch.lines - now.ended) / rate)
        hours, minutes = divmod(left // 60, 60)
        return f"{rate:.1f} a second, {f'{hours}:{minutes:02}' if hours else minutes}:{left % 60:02} left"


def _counts(now: SwarmStatus) -> Text:
    shown = Text()
    for state, name, colour in _STATES:
        count = now.states.get(state, 0)
        shown.append(f"{count:,} {name}", style=colour if count else "dim").append("  ")
    return shown.append(f"{money(now.taken)} taken, {money(now.returned)} returned")


def told(now: SwarmStatus) -> str:
    """A swarm's status in a line."""
    parts = [
        f"{now.ended:,} of {now.batch.lines:,} ended",
        f"{now.running} running",
        *(f"{now.states.get(state, 0):,} {name}" for state, name, _ in _STATES),
        f"{money(now.taken)} taken",
        f"{money(now.returned)} returned",
    ]
    why = "cancelled" if now.cancelled else now.paused and f"paused: {now.paused}"
    if why:
        parts.append(f"{why}; 'countermand swarm resume {now.batch.id}' goes on")
    return ", ".join(parts)


def money(amounts: Amounts) -> str:
    """Amounts as people write them."""
    return " + ".join(in_major_units(amount, currency) for currency, amount in amounts.items()) or "nothing"
