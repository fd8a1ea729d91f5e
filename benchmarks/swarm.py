"""A swarm on the embedded servers: agent runs a second, and what chat turns feel of it.

One worker process serves both, as ``countermand worker`` does. Chat turns are quotes, one after the other, first alone,
and then beside a swarm that is long enough to run throughout.
"""

import argparse
import asyncio
import json
import os
import resource
import sys
import tempfile
import uuid
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

from temporalio.client import Client

from countermand.agents import swarms
from countermand.agents.batch import Line
from countermand.agents.chat import Chat
from countermand.agents.pages import ref_to
from countermand.agents.session import Say
from countermand.agents.swarm import SwarmState
from countermand.agents.swarms import queue_of_swarms
from countermand.embedded import servers
from countermand.embedded.servers import Ports
from countermand.plugin import CountermandPlugin
from countermand.settings import Settings
from countermand.tools.client import providers_at
from countermand.tools.registry import load_tools
from countermand.worker import serving

QUEUE = "bench"
ORDER = "a small environment in eu-west for ada@example.com at"


@asynccontextmanager
async def served() -> AsyncGenerator[Client]:
    """The embedded servers, and a worker."""
    load_tools()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "logs").mkdir()
        ports, settings = Ports().claimed(), Settings()
        for server in (servers.temporal(settings, ports, folder), servers.world(ports, folder)):
            stack.push_async_callback(server.stop)
            await server.start(0)
            await server.wait_healthy()
        endpoints = servers.endpoints_of(settings, ports)
        await stack.enter_async_context(providers_at(endpoints.world_url))
        client = await Client.connect(
            endpoints.temporal_host, namespace=endpoints.namespace, plugins=[CountermandPlugin()]
        )
        await stack.enter_async_context(serving(client, task_queue=QUEUE))
        yield client


async def begin(client: Client, count: int) -> str:
    """Start a swarm of orders."""
    batch = f"bench-{uuid.uuid4().hex[:8]}"
    lines = [Line(number=n, id=str(n), text=f"{ORDER} h{n}.example.dev") for n in range(1, count + 1)]
    ref, _ = ref_to(batch, lines)
    state = SwarmState(batch=ref, model="stub")
    await swarms.begin(client, batch, lines, state, task_queue=queue_of_swarms(QUEUE))
    return batch


async def quotes(client: Client, count: int) -> list[float]:
    """Milliseconds of so many chat turns, one after the other."""
    chat = Chat(client=client, task_queue=QUEUE, session=f"chat-{uuid.uuid4().hex[:8]}", model="stub")
    times: list[float] = []
    for _ in range(count):
        began = perf_counter()
        await chat.result(await chat.say(Say(turn_id=uuid.uuid4().hex, text=f"{ORDER} chat.example.dev")))
        times.append((perf_counter() - began) * 1000)
    return times


async def measure(*, lines: int, turns: int) -> dict[str, float]:
    """Chat alone, chat beside a swarm, and the swarm's own rate."""
    async with served() as client:
        await quotes(client, 3)
        alone = await quotes(client, turns)
        began = perf_counter()
        batch = await begin(client, lines)
        beside: list[float] = []
        swarm = asyncio.create_task(swarms.handle_of(client, batch).result())
        while not swarm.done() and len(beside) < turns:
            beside += await quotes(client, 1)
        await swarm
        seconds = perf_counter() - began
    found = {"lines": lines, "agent_runs_per_s": lines / seconds, "turns_beside": len(beside)}
    for name, times in (("alone", alone), ("beside", beside)):
        found |= {f"chat_{name}_p50_ms": median(times), f"chat_{name}_p95_ms": _p95(times)}
    found["chat_p95_ratio"] = found["chat_beside_p95_ms"] / found["chat_alone_p95_ms"]
    found["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {name: round(value, 2) for name, value in found.items()}


def _p95(times: list[float]) -> float:
    return quantiles(times, n=100, method="inclusive")[94]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="200 lines instead of 1,000")
    parser.add_argument("--lines", type=int, help="so many lines")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    lines = options.lines or (200 if options.quick else 1_000)
    found = asyncio.run(measure(lines=lines, turns=20 if options.quick else 60))
    if options.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:24}{value:>12,.2f}")
    sys.stdout.flush()
    # A process with a Temporal worker sometimes aborts at interpreter shutdown.
    os._exit(0)


if __name__ == "__main__":
    main()
