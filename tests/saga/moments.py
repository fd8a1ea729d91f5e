"""Moments: what a saga's tools are doing right now, and what a test lets happen just then, without a clock."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

Act = Callable[[], Awaitable[None]]


@dataclass
class Moments:
    """The moments of one saga, in their order, named ``<step_no> <do|undo|probe> <begins|ends>``.

    Attributes:
        acts: What to do at a moment, by its name or by its number (from 1), before the tool goes on.
        late: Calls that were given up, and that have yet to come.
    """

    acts: dict[str | int, Act] = field(default_factory=dict)
    reached: list[str] = field(default_factory=list)
    late: list[asyncio.Task[None]] = field(default_factory=list)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def reach(self, name: str) -> None:
        """Note a moment, and let happen what the test wants to happen then."""
        self.reached.append(name)
        for act in (self.acts.pop(name, None), self.acts.pop(len(self.reached), None)):
            if act is not None:
                await act()
        async with self._changed:
            self._changed.notify_all()

    async def when(self, *names: str) -> None:
        """Wait for a moment, the first of these."""
        async with self._changed:
            await self._changed.wait_for(lambda: not set(names).isdisjoint(self.reached))

    async def end(self) -> None:
        """The saga has ended: whatever of it is still under way comes too late, and is waited for."""
        await self.reach("ended")
        for task in self.late:
            await task


_watched: dict[str, Moments] = {}


@contextmanager
def watching(saga_id: str, acts: dict[str | int, Act] | None = None) -> Generator[Moments]:
    """Watch a saga, from before it starts."""
    _watched[saga_id] = Moments(dict(acts or {}))
    try:
        yield _watched[saga_id]
    finally:
        del _watched[saga_id]


def moments_of(saga_id: str) -> Moments:
    """The moments of a saga; of one that nobody watches they are forgotten."""
    return _watched.get(saga_id) or Moments()
