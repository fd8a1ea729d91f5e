"""Tasks that nothing interrupts."""

import asyncio


async def uninterrupted(task: asyncio.Future[None]) -> None:
    """Await a task to its end, whatever cancels the waiter meanwhile."""
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            waiter = asyncio.current_task()
            if waiter is not None:
                waiter.uncancel()
    task.result()
