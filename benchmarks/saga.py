"""A saga against plain temporalio: the reference article's workflow, written by hand and as a ``PlannedSaga``.

Both run the same activity bodies (one call to the world each) under the same retry policy, worker options and server:
three forward steps, the third refused for good, two undone. Both run turn by turn in each of five rounds, and ratios
are of medians over the rounds, so that a busy machine slows both. Run by ``make bench``.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

from article import bench_pay, bench_provision, bench_route, plan, world_at
from plain import ACTIVITIES, PlainArticle
from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.plugin import SimplePlugin

from countermand.embedded import servers
from countermand.embedded.process import running
from countermand.embedded.servers import Ports
from countermand.plugin import CountermandPlugin
from countermand.saga import PlannedSaga
from countermand.settings import Settings
from countermand.worker import build_worker

ROUNDS = 5
CONCURRENCY = 50

_FAILED = EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED
_COMPLETED = EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED


class Size(BaseModel):
    """Sagas a round: one at a time, and at concurrency 50."""

    serial: int
    crowd: int


FULL = Size(serial=40, crowd=250)
QUICK = Size(serial=10, crowd=50)


@dataclass
class Contender:
    """One implementation, and what was measured of it, a value a round (milliseconds; sagas a second)."""

    name: str
    run: Callable[[str], Awaitable[object]]
    client: Client
    p50: list[float] = field(default_factory=list)
    p95: list[float] = field(default_factory=list)
    throughput: list[float] = field(default_factory=list)
    undo: list[float] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    events: int = 0
    bytes: int = 0

    async def once(self) -> float:
        """Milliseconds of one saga."""
        self.ids.append(self._new_id())
        return await _timed(self.run(self.ids[-1]))

    async def crowd(self, sagas: int) -> float:
        """Sagas a second, 50 at a time."""
        return sagas / (await _timed(self._crowd(sagas)) / 1000)

    async def read_histories(self) -> None:
        """Read of the sagas that ran alone how fast they were undone, and how large their histories are."""
        for saga in self.ids:
            await self._read_history(saga)

    async def _crowd(self, sagas: int) -> None:
        free = asyncio.Semaphore(CONCURRENCY)

        async def one() -> None:
            async with free:
                await self.run(self._new_id())

        await asyncio.gather(*(one() for _ in range(sagas)))

    async def _read_history(self, saga: str) -> None:
        """How long it took from the refusal until all was undone, and how large the history is."""
        handle = self.client.get_workflow_handle(saga)
        events = (await handle.fetch_history()).events
        failed = next(event.event_time.ToDatetime() for event in events if event.event_type == _FAILED)
        undone = [event.event_time.ToDatetime() for event in events if event.event_type == _COMPLETED][-1]
        self.undo.append((undone - failed).total_seconds() * 1000)
        info = (await handle.describe()).raw_description.workflow_execution_info
        self.events, self.bytes = info.history_length, info.history_size_bytes

    def _new_id(self) -> str:
        return f"{self.name}-{uuid.uuid4().hex[:16]}"


async def compare(size: Size) -> tuple[Contender, Contender]:
    """Run both on the embedded servers, turn by turn."""
    async with contenders() as (saga, plain):
        for one in (saga, plain):
            await one.run(f"warm-{one.name}")
        for turn in range(ROUNDS):
            # Who begins changes each round: what the first does to the machine, the second feels.
            await _round((saga, plain) if turn % 2 else (plain, saga), size)
            print(f"round {turn + 1} of {ROUNDS}", file=sys.stderr)
        for one in (saga, plain):
            await one.read_histories()
        return saga, plain


async def _round(order: tuple[Contender, Contender], size: Size) -> None:
    alone = [[await one.once() for one in order] for _ in range(size.serial)]
    for one, times in zip(order, zip(*alone, strict=True), strict=True):
        one.p50.append(_percentile(times, 50))
        one.p95.append(_percentile(times, 95))
    for one in order:
        one.throughput.append(await one.crowd(size.crowd))


@asynccontextmanager
async def contenders() -> AsyncGenerator[tuple[Contender, Contender]]:
    """The embedded servers, and a worker for each implementation."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "logs").mkdir()
        ports, settings = Ports().claimed(), Settings()
        await stack.enter_async_context(
            running(servers.temporal(settings, ports, folder), servers.world(ports, folder))
        )
        endpoints = servers.endpoints_of(settings, ports)
        await stack.enter_async_context(world_at(endpoints.world_url))

        async def connect(plugin: SimplePlugin) -> Client:
            client = await Client.connect(endpoints.temporal_host, namespace=endpoints.namespace, plugins=[plugin])
            await stack.enter_async_context(build_worker(client, task_queue=plugin.name()))
            return client

        ours = await connect(CountermandPlugin([bench_pay, bench_provision, bench_route]))
        by_hand = await connect(
            SimplePlugin(
                "plain", data_converter=pydantic_data_converter, workflows=[PlainArticle], activities=ACTIVITIES
            )
        )

        async def run_saga(saga: str) -> object:
            queue = "countermand.CountermandPlugin"
            return await ours.execute_workflow(PlannedSaga.run, plan(saga), id=saga, task_queue=queue)

        async def run_plain(saga: str) -> object:
            return await by_hand.execute_workflow(PlainArticle.run, saga, id=saga, task_queue="plain")

        yield Contender("saga", run_saga, ours), Contender("plain", run_plain, by_hand)


async def _timed(work: Awaitable[object]) -> float:
    """Milliseconds."""
    began = perf_counter()
    await work
    return (perf_counter() - began) * 1000


def _percentile(values: Sequence[float], percent: int) -> float:
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def figures(saga: Contender, plain: Contender) -> dict[str, float]:
    """What was measured, in milliseconds, sagas a second, events and bytes."""
    found = {
        "p50_ratio": median(saga.p50) / median(plain.p50),
        "p95_ratio": median(saga.p95) / median(plain.p95),
        "throughput_ratio": median(saga.throughput) / median(plain.throughput),
        "undo_p95_ms": _percentile(saga.undo, 95),
    }
    for one in (saga, plain):
        found |= {
            f"{one.name}_p50_ms": median(one.p50),
            f"{one.name}_p95_ms": median(one.p95),
            f"{one.name}_per_s": median(one.throughput),
            f"{one.name}_undo_p50_ms": _percentile(one.undo, 50),
            f"{one.name}_undo_p95_ms": _percentile(one.undo, 95),
            f"{one.name}_events": one.events,
            f"{one.name}_history_bytes": one.bytes,
        }
    return {name: round(value, 3) for name, value in found.items()}


TABLE = (
    ("p50, one at a time (ms)", "p50_ms"),
    ("p95, one at a time (ms)", "p95_ms"),
    ("sagas/s, 50 at a time", "per_s"),
    ("refused to all undone, p50 (ms)", "undo_p50_ms"),
    ("refused to all undone, p95 (ms)", "undo_p95_ms"),
    ("history events", "events"),
    ("history bytes", "history_bytes"),
)


def show(found: dict[str, float]) -> None:
    """The figures as a table."""
    print(f"{'':34}{'saga':>10}{'plain':>10}{'ratio':>8}")
    for title, name in TABLE:
        saga, plain = found[f"saga_{name}"], found[f"plain_{name}"]
        print(f"{title:34}{saga:>10,.1f}{plain:>10,.1f}{saga / plain:>8.2f}")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer sagas a round: under 40 s")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    found = figures(*asyncio.run(compare(QUICK if options.quick else FULL)))
    if options.json:
        print(json.dumps(found))
    else:
        show(found)
    sys.stdout.flush()
    # A process with a Temporal worker sometimes aborts at interpreter shutdown.
    os._exit(0)


if __name__ == "__main__":
    main()
