"""``countermand worker``: serves sagas, agents and tools until it is told to stop."""

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from countermand.cache.connection import Connection
from countermand.cache.context import ContextCache
from countermand.cache.feed import Feed
from countermand.cli.console import say_json
from countermand.client import connect
from countermand.embedded import connected
from countermand.plugin import CountermandPlugin
from countermand.saga.audit.log import AuditLog
from countermand.settings import Settings
from countermand.tools.client import providers_at
from countermand.tools.registry import load_tools
from countermand.worker import build_worker

worker = App(
    name="worker",
    help="""Serve sagas, agents and tools from the task queue, until SIGTERM or Ctrl-C.

Example: COUNTERMAND_TEMPORAL_HOST=localhost:7233 countermand worker""",
)


@worker.default
async def _worker(
    *,
    task_queue: Annotated[str | None, Parameter(help="Serve this task queue instead of the setting's.")] = None,
    json_output: Annotated[bool, Parameter(name="--json", negative="", help="Say that it serves as JSON.")] = False,
    ready_file: Annotated[Path | None, Parameter(show=False)] = None,
) -> int:
    settings = Settings()
    load_tools(settings.tools)
    stop = asyncio.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sign, stop.set)
    async with AsyncExitStack() as stack:
        endpoints = await stack.enter_async_context(connected(settings))
        queue = task_queue or endpoints.task_queue
        redis = await stack.enter_async_context(Connection(endpoints.redis_url))
        audit = AuditLog.in_folder(settings.state_folder)
        stack.callback(audit.close)
        plugin = CountermandPlugin(cache=ContextCache(redis), feed=Feed(redis), audit=audit)
        client = await connect(endpoints, plugin)
        async with providers_at(endpoints.world_url), build_worker(client, task_queue=queue):
            if json_output:
                say_json({"serving": queue, "temporal_host": endpoints.temporal_host})
            else:
                print(f"serving {queue} at {endpoints.temporal_host}", flush=True)  # noqa: T201 - the command's output
            if ready_file is not None:
                ready_file.touch()
            await stop.wait()
    return 0
