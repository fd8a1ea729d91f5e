"""A swarm's progress: in place on a terminal, quiet in a pipe but for the last word."""

from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from countermand.agents.lines import Amounts
from countermand.agents.swarm import SwarmStatus
from countermand.saga import SagaState


class SwarmProgress:
    """Shows how far a swarm is.

    Args:
        console: Where to show it.
        batch: The batch's id, which one needs to go on with it.
        lines: How many there are.
        quiet: Show nothing.
    """

    def __init__(self, console: Console, batch: str, lines: int, *, quiet: bool) -> None:
        self._console = console
        self._batch = batch
        self._quiet = quiet
        self._last: SwarmStatus | None = None
        self._began: tuple[float, int] | None = None
        self._bars = Progress(
            BarColumn(24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
            console=console,
            disable=quiet or not console.is_terminal,
        )
        self._task = self._bars.add_task(batch, total=lines, told="")

    def __enter__(self) -> Self:
        if not self._quiet:
            self._console.print(f"batch {self._batch}", style="dim")
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()
        if self._last is not None and not self._quiet:
            self._console.print(told(self._last), soft_wrap=True)

    def show(self, now: SwarmStatus) -> None:
        """Show the swarm as it stands now."""
        self._last = now
        self._bars.update(self._task, completed=now.ended, told=f"{told(now)}{self._pace(now)}")

    def _pace(self, now: SwarmStatus) -> str:
        """Lines a second, and the time left at that rate, since this command watches."""
        if self._began is None:
            self._began = monotonic(), now.ended
        since, before = self._began
        done = now.ended - before
        if not done:
            return ""
        rate = done / (monotonic() - since)
        left = round((now.batch.lines - now.ended) / rate)
        return f"  {rate:.1f}/s  {left // 60}:{left % 60:02} left"


def told(now: SwarmStatus) -> str:
    """A swarm's status in a line."""
    parts = [
        f"{now.ended:,} of {now.batch.lines:,} ended",
        f"{now.running} running",
        f"{now.states.get(SagaState.COMMITTED, 0):,} committed",
        f"{now.states.get(SagaState.COMPENSATED, 0):,} compensated",
        f"{now.states.get(SagaState.NEEDS_ATTENTION, 0):,} need attention",
        f"{money(now.taken)} taken",
        f"{money(now.returned)} returned",
    ]
    if now.cancelled:
        parts.append("cancelled")
    if now.paused:
        parts.append(f"paused: {now.paused}; 'countermand swarm resume {now.batch.id}' goes on")
    return ", ".join(parts)


def money(amounts: Amounts) -> str:
    """Amounts as people write them."""
    return " + ".join(f"{amount / 100:,.2f} {currency.upper()}" for currency, amount in amounts.items()) or "nothing"
