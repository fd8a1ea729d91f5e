"""Records the golden bundles, one of every kind of ending: ``make bundles``."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client

from countermand.agents.agent_saga import AgentSaga
from countermand.agents.team import ORDER_TEAM
from countermand.agents.turn import TurnInput
from countermand.replay.bundle import record, save
from countermand.saga import Plan, PlannedSaga, PlannedStep
from countermand.saga.janitor import SweepInput, sweep
from countermand.saga.recovery import RecoverySaga
from countermand.saga.revoke import revoke
from countermand.testing import servers
from countermand.testing.waiting import until
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from countermand.tools.registry import load_tools
from countermand.tools.world.server import serve_world
from countermand.worker import build_worker

FOLDER = Path(__file__).parent / "bundles"
QUEUE = "golden"
ORDER = "A small environment in eu-west for ada@example.com at ada.example.dev, please"


@dataclass(frozen=True)
class Place:
    """Where a bundle is made."""

    client: Client
    world: WorldUnderTest
    queue: str = QUEUE

    async def order(self, saga_id: str) -> None:
        """Start the stub's order, confirmed in advance."""
        turn = TurnInput(text=ORDER, model="stub", team=ORDER_TEAM, confirmed=True)
        await self.client.start_workflow(AgentSaga.run, turn, id=saga_id, task_queue=self.queue)

    async def hold_stock(self, saga_id: str, *more: PlannedStep) -> None:
        """Start a short plan: a quote, a reservation, a hold on the customer's card."""
        order = {"plan": "small", "region": "eu-west", "email": "ada@example.com", "hostname": "ada.example.dev"}
        plan = Plan(
            steps=(
                PlannedStep(tool="quote_order", args={**order}),
                PlannedStep(tool="reserve_stock", results={"quote_id": (1, "quote_id")}),
                PlannedStep(tool="authorize_payment", results={"quote_id": (1, "quote_id")}),
                *more,
            )
        )
        await self.client.start_workflow(PlannedSaga.run, plan, id=saga_id, task_queue=self.queue)

    async def ended(self, saga_id: str) -> None:
        """Wait for a saga's end."""
        await self.client.get_workflow_handle(saga_id).result()

    async def hanging(self, operation: str) -> None:
        """Wait until a call to a provider hangs that was told to hang."""

        async def fired() -> bool:
            return any(fault.fired for fault in await self.world.faults() if fault.operation == operation)

        await until(fired)


async def committed(place: Place, saga_id: str) -> None:
    await place.order(saga_id)
    await place.ended(saga_id)


async def refused(place: Place, saga_id: str) -> None:
    await place.world.fault("payments.capture", "decline")
    await committed(place, saga_id)


async def unavailable(place: Place, saga_id: str) -> None:
    await place.world.fault("dns.register", "http_503")
    await committed(place, saga_id)


async def lost_answer(place: Place, saga_id: str) -> None:
    await place.world.fault("payments.authorize", "http_500", effect="after")
    await place.world.fault("payments.probe", "http_503")
    await place.hold_stock(saga_id)
    await place.ended(saga_id)


async def cancelled(place: Place, saga_id: str) -> None:
    await place.world.fault("payments.authorize", "hang")
    await place.hold_stock(saga_id)
    await place.hanging("payments.authorize")
    await place.client.get_workflow_handle(saga_id).cancel(reason="changed my mind")
    await place.ended(saga_id)


async def needs_attention(place: Place, saga_id: str) -> None:
    await place.world.fault("payments.authorize", "decline")
    await place.world.fault("inventory.release", "decline")
    await place.hold_stock(saga_id)
    await place.ended(saga_id)


async def revoked(place: Place, saga_id: str) -> None:
    await place.hold_stock(saga_id, PlannedStep(tool="capture_payment", results={"payment_id": (3, "payment_id")}))
    await place.ended(saga_id)
    await revoke(place.client, saga_id, by="golden", actor="operator:golden", reason="sent back")


async def recovered(place: Place, saga_id: str) -> None:
    await place.world.fault("payments.authorize", "hang")
    await place.hold_stock(saga_id)
    await place.hanging("payments.authorize")
    await place.client.get_workflow_handle(saga_id).terminate("the machine died")
    await place.world.clear_faults()

    async def found() -> bool:
        return bool((await sweep(place.client, SweepInput(saga_id=saga_id))).recovered)

    await until(found)
    await place.client.get_workflow_handle_for(RecoverySaga.run, f"recover/{saga_id}").result()


ENDINGS: dict[str, Callable[[Place, str], Awaitable[None]]] = {
    "committed": committed,
    "refused": refused,
    "unavailable": unavailable,
    "lost-answer": lost_answer,
    "cancelled": cancelled,
    "needs-attention": needs_attention,
    "revoked": revoked,
    "recovered": recovered,
}


@asynccontextmanager
async def place_to_record() -> AsyncGenerator[Place]:
    """Servers and a worker."""
    load_tools()
    async with (
        servers.temporal_local() as client,
        serve_world() as served,
        providers_at(served.url),
        build_worker(client, task_queue=QUEUE),
    ):
        yield Place(client, WorldUnderTest(served.url))


async def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    async with place_to_record() as place:
        for name, make in ENDINGS.items():
            await place.world.reset()
            await make(place, f"golden-{name}")
            bundle = await record(place.client, f"golden-{name}")
            save(bundle, FOLDER / f"{name}.json")
            print(f"{name}: {len(bundle.runs)} runs")  # noqa: T201 - progress


if __name__ == "__main__":
    asyncio.run(main())
