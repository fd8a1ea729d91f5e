"""Waiting for a condition, since tests do not sleep."""

import asyncio
from collections.abc import Awaitable, Callable

DEADLINE = 30.0
"""Seconds after which a condition that does not come fails the test."""


async def until(condition: Callable[[], Awaitable[object]], *, deadline: float = DEADLINE) -> None:
    """Wait until the condition is truthy.

    Raises:
        AssertionError: It was not by the deadline.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + deadline
    while not await condition():
        if loop.time() > end:
            raise AssertionError(f"it did not come about within {deadline:.0f} s")
        await asyncio.sleep(0.02)
