"""A swarm on the embedded servers: agent runs a second, memory, and what chat turns feel of it.

Workers are processes, as ``countermand worker`` is one; each serves chats, swarms, and the same graph without sagas
(``plain_agent``). The plain graph runs before the swarm and after it, so that a busy machine slows both. Chat turns are
quotes, one after the other, first alone, and then beside a swarm that is long enough to run throughout.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import uuid
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

from plain_agent import PLAIN_GRAPH, PlainAgent, ask, call_tool, plain_graph
from temporalio.client import Client
from temporalio.langgraph import LangGraphPlugin
from temporalio.worker import Worker

from countermand.agents import swarms
from countermand.agents.batch import Line
from countermand.agents.chat import Chat
from countermand.agents.pages import ref_to
from countermand.agents.session import Say
from countermand.agents.swarm import SwarmState
from countermand.agents.think import queue_of_models
from countermand.embedded import servers
from countermand.embedded.process import Server, running
from countermand.embedded.servers import READY, Ports
from countermand.plugin import CountermandPlugin
from countermand.queues import Queues
from countermand.saga import SagaOptions, SagaState
from countermand.saga.audit.keys import create_development_key
from countermand.saga.audit.log import AuditLog
from countermand.settings import Settings
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from countermand.tools.registry import load_tools
from countermand.worker import serving

QUEUE, PLAIN_QUEUE = "bench", "bench-plain"
ORDER = "a small environment in eu-west for ada@example.com at"
CONCURRENCY = 32
# The plain graph's runs know nothing of each other: its rate is that of so many before, and so many after.
PLAIN_LINES = 500
WARM_UP = 10
CLUSTER_QUOTA = 1_000_000
AT_QUARTER, AT_END = 0, 3


async def serve(address: str, world_url: str, folder: Path, queues: Queues) -> None:
    """Be a worker, until killed."""
    load_tools()
    audit = AuditLog.in_folder(folder)
    client = await Client.connect(address, namespace=Settings().namespace, plugins=[CountermandPlugin(audit=audit)])
    plain = Worker(
        client,
        task_queue=PLAIN_QUEUE,
        workflows=[PlainAgent],
        activities=[ask, call_tool],
        plugins=[LangGraphPlugin(graphs={PLAIN_GRAPH: plain_graph()})],
    )
    async with providers_at(world_url), serving(client, task_queue=QUEUE, queues=queues), plain:
        print(f"{READY}serving", flush=True)
        await asyncio.Event().wait()


@dataclass
class Bench:
    """The servers, some workers, and a client."""

    client: Client
    workers: list[Server]
    memory: dict[int, list[float]] = field(default_factory=dict[int, list[float]])

    async def swarm(self, count: int) -> float:
        """Runs a second of a swarm; all must commit."""
        self.memory.clear()
        began = perf_counter()
        batch = await self.begin(count)
        status = None
        async for status, _ in swarms.watch(self.client, batch):
            self._weigh(status.ended, count, perf_counter() - began)
        if status is None or status.states != {SagaState.COMMITTED: count}:
            raise RuntimeError(f"not all lines committed: {status}")
        return count / (perf_counter() - began)

    async def begin(self, count: int) -> str:
        """Start a swarm of orders."""
        batch = f"bench-{uuid.uuid4().hex[:8]}"
        lines = [Line(number=n, id=str(n), text=_order(n)) for n in range(1, count + 1)]
        ref, _ = ref_to(batch, lines)
        state = SwarmState(
            batch=ref,
            model="stub",
            concurrency=CONCURRENCY,
            options=SagaOptions(audit=True),
            model_queue=queue_of_models(swarms.queue_of_swarms(QUEUE)),
        )
        await swarms.begin(self.client, batch, lines, state, task_queue=swarms.queue_of_swarms(QUEUE))
        return batch

    async def plain(self, count: int) -> float:
        """Runs a second of the same graph without sagas."""
        free = asyncio.Semaphore(CONCURRENCY)

        async def one(n: int) -> None:
            async with free:
                name = f"plain-{uuid.uuid4().hex[:16]}"
                said = await self.client.execute_workflow(PlainAgent.run, _order(n), id=name, task_queue=PLAIN_QUEUE)
                if not said.startswith("Placed"):
                    raise RuntimeError(f"an order was not placed: {said}")

        began = perf_counter()
        await asyncio.gather(*(one(n) for n in range(count)))
        return count / (perf_counter() - began)

    async def quotes(self, count: int) -> list[float]:
        """Milliseconds of so many chat turns, one after the other."""
        chat = Chat(
            client=self.client,
            task_queue=QUEUE,
            session=f"chat-{uuid.uuid4().hex[:8]}",
            model="stub",
            model_queue=queue_of_models(QUEUE),
        )
        times: list[float] = []
        for _ in range(count):
            began = perf_counter()
            await chat.result(await chat.say(Say(turn_id=uuid.uuid4().hex, text=_order(0))))
            times.append((perf_counter() - began) * 1000)
        return times

    def _weigh(self, ended: int, count: int, seconds: float) -> None:
        """Note and tell the resident memory of driver and workers, at each quarter of the way."""
        place = ended * 4 // count - 1
        if place >= 0 and (place == AT_END or place not in self.memory):
            pids = [worker.process.pid for worker in self.workers if worker.process]
            self.memory[place] = [_resident_mb(os.getpid()), *map(_resident_mb, pids)]
            memory = ", ".join(f"{mb:.0f}" for mb in self.memory[place])
            print(f"{ended:,} lines: {ended / seconds:.1f} a second; driver and workers {memory} MB", file=sys.stderr)


def _order(number: int) -> str:
    return f"{ORDER} h{number}.{uuid.uuid4().hex[:8]}.example.dev"


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@asynccontextmanager
async def bench(workers: int, *, apart: bool = False) -> AsyncGenerator[Bench]:
    """The embedded servers, and so many workers; ``apart``, each is a pair: one for chats, one for swarms."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "logs").mkdir()
        create_development_key(folder)
        ports, settings = Ports().claimed(), Settings()
        endpoints = servers.endpoints_of(settings, ports)
        await stack.enter_async_context(
            running(servers.temporal(settings, ports, folder), servers.world(ports, folder))
        )
        kinds: tuple[Queues, ...] = ("chats", "swarms") if apart else ("all",)
        serving = [
            _worker(f"{no}-{queues}", folder, endpoints.temporal_host, endpoints.world_url, str(folder), queues)
            for no in range(workers)
            for queues in kinds
        ]
        await stack.enter_async_context(running(*serving))
        # The region may not be full before the batch is through.
        await WorldUnderTest(endpoints.world_url).seed(cluster_quota=CLUSTER_QUOTA)
        client = await Client.connect(
            endpoints.temporal_host, namespace=endpoints.namespace, plugins=[CountermandPlugin()]
        )
        yield Bench(client, serving)


def _worker(name: str, folder: Path, *where: str) -> Server:
    async def healthy() -> bool:
        return READY in server.output()

    command = [sys.executable, __file__, "--serve", *where]
    if where[-1] == "swarms":
        command = [*servers.AFTER_CHATS, *command]
    server = Server(name, command, healthy, folder / "logs" / f"{name}.log")
    return server


async def rates(lines: int, workers: int) -> dict[str, float]:
    """A swarm of all lines between two runs of the plain graph; memory is the swarm's."""
    async with bench(workers) as there:
        await there.swarm(WARM_UP)
        await there.plain(WARM_UP)
        before = await there.plain(min(lines, PLAIN_LINES))
        swarm = await there.swarm(lines)
        driver, *served = zip(*(there.memory[place] for place in (AT_QUARTER, AT_END)), strict=True)
        after = await there.plain(min(lines, PLAIN_LINES))
        plain = median([before, after])
        print(f"{workers} workers: swarm {swarm:.1f}, plain {before:.1f} and {after:.1f} a second", file=sys.stderr)
        return {
            "swarm_per_s": swarm,
            "plain_per_s": plain,
            "ratio": swarm / plain,
            "driver_mb_at_quarter": driver[0],
            "driver_mb_at_end": driver[1],
            "worker_mb_at_quarter": max(early for early, _ in served),
            "worker_mb_at_end": max(late for _, late in served),
        }


async def chats(lines: int, turns: int) -> dict[str, float]:
    """Chat turns alone, and beside a swarm; each has a worker process, as ``countermand up`` runs them."""
    async with bench(1, apart=True) as there:
        await there.quotes(3)
        alone = await there.quotes(turns)
        swarm = asyncio.create_task(there.swarm(lines))
        beside: list[float] = []
        while not swarm.done() and len(beside) < turns:
            beside += await there.quotes(1)
        await swarm
    found: dict[str, float] = {"turns_beside": len(beside)}
    for name, times in (("alone", alone), ("beside", beside)):
        found |= {f"chat_{name}_p50_ms": median(times), f"chat_{name}_p95_ms": _p95(times)}
    return found | {"chat_p95_ratio": found["chat_beside_p95_ms"] / found["chat_alone_p95_ms"]}


def _p95(times: list[float]) -> float:
    return quantiles(times, n=100, method="inclusive")[94]


async def measure(lines: int, workers: list[int], turns: int) -> dict[str, dict[str, float]]:
    """All that is measured."""
    found = {f"{lines:,} lines, {count} workers": await rates(lines, count) for count in workers}
    if turns:
        found["chat"] = await chats(lines, turns)
    return {name: {key: round(value, 2) for key, value in row.items()} for name, row in found.items()}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="100 lines instead of 1,000, one worker")
    parser.add_argument("--lines", type=int, help="so many lines")
    parser.add_argument("--workers", type=int, nargs="*", help="so many worker processes, one row each; 1 2 4")
    parser.add_argument("--turns", type=int, default=60, help="chat turns alone and beside a swarm; 0 measures none")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        address, world, folder, queues = options.serve
        asyncio.run(serve(address, world, Path(folder), queues))
        return
    workers = [1, 2, 4] if options.workers is None else options.workers
    lines = options.lines or (100 if options.quick else 1_000)
    found = asyncio.run(measure(lines, [1] if options.quick else workers, options.turns))
    if options.json:
        print(json.dumps(found))
    else:
        for title, row in found.items():
            print(title)
            for name, value in row.items():
                print(f"  {name:24}{value:>12,.2f}")
    sys.stdout.flush()
    # A process with a Temporal worker sometimes aborts at interpreter shutdown.
    os._exit(0)


if __name__ == "__main__":
    main()
