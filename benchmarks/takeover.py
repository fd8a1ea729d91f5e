"""A worker is killed in the middle of a step: how long until another one has carried the saga on.

Two worker processes serve one queue. Each order is held at one of its steps (the world does not answer) and the worker
that makes the call gets SIGKILL. The saga's history says when a survivor began the next attempt ("taken over") and when
the workflow itself went on after it ("on"). A killed worker is started anew before the next order.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import quantiles
from time import time

from temporalio.api.enums.v1 import EventType, PendingActivityState
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle

from countermand.embedded import servers
from countermand.embedded.process import Server, running
from countermand.embedded.servers import Ports
from countermand.plugin import CountermandPlugin
from countermand.saga import Plan, PlannedSaga, PlannedStep
from countermand.saga.audit.keys import create_development_key
from countermand.saga.types import JsonObject, SagaReport, SagaState
from countermand.settings import Settings
from countermand.testing.waiting import until
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.registry import load_tools

HELD_AT = {2: "inventory.reserve", 3: "payments.authorize", 4: "cloud.create_cluster", 5: "payments.capture"}


@dataclass
class Stage:
    """What runs."""

    client: Client
    world: WorldUnderTest
    workers: list[Server]
    task_queue: str


@asynccontextmanager
async def raised() -> AsyncGenerator[Stage]:
    """The embedded servers, and two workers."""
    load_tools()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folders = [folder, folder / "second"]
        for one in folders:
            (one / "logs").mkdir(parents=True)
        ports, settings = Ports().claimed(), Settings(state_folder=folder)
        endpoints = servers.endpoints_of(settings, ports)
        await stack.enter_async_context(
            running(servers.temporal(settings, ports, folder), servers.world(ports, folder))
        )
        await servers.prepare(endpoints)
        create_development_key(folder)
        workers = [servers.worker(settings, endpoints, one) for one in folders]
        await stack.enter_async_context(running(*workers))
        client = await Client.connect(
            endpoints.temporal_host, namespace=endpoints.namespace, plugins=[CountermandPlugin()]
        )
        yield Stage(client, WorldUnderTest(endpoints.world_url), workers, endpoints.task_queue)


async def kill_one(stage: Stage, saga_id: str, held_at: int) -> tuple[float, float]:
    """Seconds from the kill until the call was taken over, and until its saga was on."""
    fault = await stage.world.fault(HELD_AT[held_at], "hang", key=f"{saga_id}:{held_at}", times=1)
    handle = await stage.client.start_workflow(
        PlannedSaga.run, Plan(steps=plan()), id=saga_id, task_queue=stage.task_queue
    )

    async def held() -> bool:
        return bool(await stage.world.fired(fault))

    await until(held)
    worker, victim = await _maker_of_the_call(stage, handle, f"step:{held_at}")
    os.killpg(victim.pid, signal.SIGKILL)
    killed = time()
    await victim.wait()
    report: SagaReport = await handle.result()
    if report.state is not SagaState.COMMITTED:
        raise RuntimeError(f"{saga_id} did not commit: {report}")
    await worker.start(0)
    await worker.wait_healthy()
    return await _taken_over_and_on(handle, f"step:{held_at}", killed)


def plan() -> tuple[PlannedStep, ...]:
    """An order's steps, one after the other."""
    order: JsonObject = {
        "plan": "small",
        "region": "eu-west",
        "email": "ada@example.com",
        "hostname": "takeover.example.dev",
        "load_balancers": 1,
    }
    return (
        PlannedStep(tool="quote_order", args=order),
        PlannedStep(tool="reserve_stock", results={"quote_id": (1, "quote_id")}),
        PlannedStep(tool="authorize_payment", results={"quote_id": (1, "quote_id")}),
        PlannedStep(tool="provision_cluster", results={"quote_id": (1, "quote_id")}),
        PlannedStep(tool="capture_payment", results={"payment_id": (3, "payment_id")}),
    )


async def _maker_of_the_call(
    stage: Stage, handle: WorkflowHandle[PlannedSaga, SagaReport], activity: str
) -> tuple[Server, Process]:
    pending = (await handle.describe()).raw_description.pending_activities
    for call in pending:
        if call.activity_id == activity and call.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED:
            pid = int(call.last_worker_identity.partition("@")[0])
            return next((one, one.process) for one in stage.workers if one.process and one.process.pid == pid)
    raise RuntimeError(f"{activity} of {handle.id} is not held")


async def _taken_over_and_on(
    handle: WorkflowHandle[PlannedSaga, SagaReport], activity: str, killed: float
) -> tuple[float, float]:
    events = list((await handle.fetch_history()).events)
    scheduled = next(event.event_id for event in events if _attributes_id(event) == activity)
    started = next(
        event
        for event in events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED
        and event.activity_task_started_event_attributes.scheduled_event_id == scheduled
        and event.activity_task_started_event_attributes.attempt > 1
    )
    on = next(
        event
        for event in events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED and event.event_id > started.event_id
    )
    return _seconds(started) - killed, _seconds(on) - killed


def _attributes_id(event: HistoryEvent) -> str:
    return event.activity_task_scheduled_event_attributes.activity_id


def _seconds(event: HistoryEvent) -> float:
    return event.event_time.seconds + event.event_time.nanos / 1e9


async def measure(kills: int, seed: int) -> dict[str, float]:
    """The figures, in seconds, over so many kills."""
    draw = Random(seed)  # noqa: S311 - not a secret
    taken_over: list[float] = []
    on: list[float] = []
    async with raised() as stage:
        for number in range(kills):
            taken, went = await kill_one(stage, f"takeover-{number}", draw.choice(list(HELD_AT)))
            taken_over.append(taken)
            on.append(went)
            print(f"{number + 1} of {kills}: taken over {taken:.2f} s, on {went:.2f} s", file=sys.stderr)
    found = {"kills": float(kills)}
    for name, values in (("taken_over", taken_over), ("on", on)):
        cut = quantiles(values, n=100, method="inclusive")
        found |= {f"{name}_p50_s": cut[49], f"{name}_p95_s": cut[94], f"{name}_max_s": max(values)}
    return {name: round(value, 2) for name, value in found.items()}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args()
    found = asyncio.run(measure(options.kills, options.seed))
    if options.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:20}{value:>8}")


if __name__ == "__main__":
    main()
