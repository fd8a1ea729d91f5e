"""``countermand worker``: serves sagas, agents and tools until it is told to stop."""

import asyncio
import signal
from contextlib import AsyncExitStack, suppress
from typing import Annotated

from cyclopts import Parameter

from countermand.agents.usage import load_prices
from countermand.cache.connection import Connection
from countermand.cache.context import ContextCache
from countermand.cache.feed import Feed
from countermand.cli.console import say_json
from countermand.cli.logs import log_to_stderr
from countermand.client import connect
from countermand.embedded import connected
from countermand.embedded.servers import READY
from countermand.encryption import load_cipher
from countermand.plugin import CountermandPlugin
from countermand.queues import Queues
from countermand.saga.audit.log import AuditLog
from countermand.settings import Settings
from countermand.tools.client import providers_at
from countermand.tools.facts import facts_shared_by
from countermand.tools.registry import load_tools
from countermand.worker import serving

_PATIENCE = 30.0
"""Seconds that a worker waits for its Temporal server: both are often started together."""


async def worker(
    *,
    task_queue: Annotated[str | None, Parameter(help="Serve this task queue instead of the setting's.")] = None,
    queues: Annotated[
        Queues,
        Parameter(help="Serve chats, or swarms, or all."),
    ] = "all",
    json_output: Annotated[bool, Parameter(name="--json", help="Say that it serves as JSON.")] = False,
) -> int:
    """Serve until told to stop."""
    settings = Settings()
    log_to_stderr()
    load_tools(settings.tools)
    serving = asyncio.create_task(_serve(settings, task_queue, queues, as_json=json_output))
    for sign in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sign, serving.cancel)
    with suppress(asyncio.CancelledError):
        await serving
    return 0


async def _serve(settings: Settings, task_queue: str | None, queues: Queues, *, as_json: bool) -> None:
    """Serve until cancelled; the worker then lets its tasks end, for a while."""
    cipher = load_cipher(settings.state_folder)
    async with AsyncExitStack() as stack:
        endpoints = await stack.enter_async_context(connected(settings))
        queue = task_queue or endpoints.task_queue
        redis = await stack.enter_async_context(Connection(endpoints.redis_url, cipher=cipher))
        audit = AuditLog.in_folder(settings.state_folder)
        stack.callback(audit.close)
        cache = ContextCache(redis)
        stack.enter_context(facts_shared_by(cache))
        prices = load_prices(settings.model_prices)
        plugin = CountermandPlugin(cache=cache, feed=Feed(redis), audit=audit, prices=prices, cipher=cipher)
        client = await connect(endpoints, plugin, patience=_PATIENCE)
        served = serving(client, task_queue=queue, queues=queues, model_rate=settings.model_rate)
        async with providers_at(endpoints.world_url), served:
            if as_json:
                say_json({"serving": queue, "temporal_host": endpoints.temporal_host})
            else:
                print(f"{READY}serving {queue} at {endpoints.temporal_host}", flush=True)  # noqa: T201 - for who waits
            await asyncio.Event().wait()
