"""What a saga pays for its audit: the reference article's plan with and without, turn by turn in one run.

    python benchmarks/audited.py [--quick] [--json]

Latency is until the saga's answer, which the audit does not hold up; throughput is until the last receipt is logged.
"""

import asyncio
import json
import os
import sys
import tempfile
import uuid
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated

from article import bench_pay, bench_provision, bench_route, plan, world_at
from cyclopts import App, Parameter
from temporalio.client import Client

from countermand.embedded import servers
from countermand.embedded.process import running
from countermand.embedded.servers import Ports
from countermand.plugin import CountermandPlugin
from countermand.saga import PlannedSaga, SagaOptions
from countermand.saga.audit.keys import create_development_key
from countermand.saga.audit.log import AuditLog
from countermand.saga.names import AUDIT
from countermand.settings import Settings
from countermand.worker import build_worker

ROUNDS = 5
CONCURRENCY = 20
QUEUE = "audited"

app = App(help=__doc__)


@dataclass(frozen=True)
class Figures:
    """Medians over the rounds, and the load (one minute) at the end; ratios are with audit over without."""

    p50_ms: float
    p50_ms_without: float
    p50_ratio: float
    per_s: float
    per_s_without: float
    throughput_ratio: float
    load: float


@app.default
def main(*, quick: bool = False, as_json: Annotated[bool, Parameter(name="--json", negative="")] = False) -> None:
    """Measure.

    Args:
        quick: A quarter of the sagas.
        as_json: Print one JSON object.
    """
    serial, crowd = (10, 50) if quick else (40, 200)
    figures = asdict(asyncio.run(compare(serial, crowd)))
    if as_json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:20}{value:10.2f}")
    sys.stdout.flush()
    # A process with a Temporal worker sometimes aborts at interpreter shutdown.
    os._exit(0)


async def compare(serial: int, crowd: int) -> Figures:
    """Run both turn by turn; who begins changes each round."""
    times: dict[bool, list[float]] = {True: [], False: []}
    rates: dict[bool, list[float]] = {True: [], False: []}
    async with worker() as client:
        for turn in range(ROUNDS + 1):
            order = (True, False) if turn % 2 else (False, True)
            alone = [{audit: await timed(one(client, audit=audit)) for audit in order} for _ in range(serial)]
            together = {audit: crowd / await timed(many(client, crowd, audit=audit)) for audit in order}
            if turn:
                # The first round only warms both up.
                for audit in order:
                    times[audit].append(1000 * median(took[audit] for took in alone))
                    rates[audit].append(together[audit])
            print(f"round {turn} of {ROUNDS}", file=sys.stderr)
    p50, rate = ({audit: median(values) for audit, values in one.items()} for one in (times, rates))
    return Figures(
        p50_ms=p50[True],
        p50_ms_without=p50[False],
        p50_ratio=p50[True] / p50[False],
        per_s=rate[True],
        per_s_without=rate[False],
        throughput_ratio=rate[True] / rate[False],
        load=os.getloadavg()[0],
    )


@asynccontextmanager
async def worker() -> AsyncGenerator[Client]:
    """A worker with an audit log on disk, synced at every commit, on an embedded server and world of its own."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "logs").mkdir()
        create_development_key(folder)
        log = AuditLog.in_folder(folder)
        stack.callback(log.close)
        ports, settings = Ports().claimed(), Settings()
        await stack.enter_async_context(
            running(servers.temporal(settings, ports, folder), servers.world(ports, folder))
        )
        endpoints = servers.endpoints_of(settings, ports)
        await stack.enter_async_context(world_at(endpoints.world_url))
        plugin = CountermandPlugin([bench_pay, bench_provision, bench_route], audit=log)
        client = await Client.connect(endpoints.temporal_host, namespace=endpoints.namespace, plugins=[plugin])
        await stack.enter_async_context(build_worker(client, task_queue=QUEUE))
        yield client


async def one(client: Client, *, audit: bool) -> str:
    """Run one saga to its answer; answers its id."""
    saga = uuid.uuid4().hex
    options = SagaOptions(audit=audit)
    start = plan(saga).model_copy(update={"options": options})
    await client.execute_workflow(PlannedSaga.run, start, id=saga, task_queue=QUEUE)
    return saga


async def many(client: Client, sagas: int, *, audit: bool) -> None:
    """Run sagas, 20 at a time, until all are answered and, where they are audited, in the log."""
    free = asyncio.Semaphore(CONCURRENCY)

    async def whole() -> None:
        async with free:
            saga = await one(client, audit=audit)
        if audit:
            await client.get_workflow_handle(f"{AUDIT}{saga}").result()

    await asyncio.gather(*(whole() for _ in range(sagas)))


async def timed(work: Awaitable[object]) -> float:
    """Seconds."""
    began = perf_counter()
    await work
    return perf_counter() - began


if __name__ == "__main__":
    app()
