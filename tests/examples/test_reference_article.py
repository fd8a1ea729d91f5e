"""The reference article's saga: all of the order, or nothing of it."""

import json
import subprocess
import sys
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest
from pydantic import BaseModel
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer, Worker

from countermand.plugin import CountermandPlugin
from countermand.saga import SagaOptions
from countermand.saga.tool import AnyTool
from countermand.saga.types import JsonObject
from countermand.testing.contract import check_tool
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from examples import reference_article
from examples.reference_article import (
    AgentTransactionSagaWorkflow,
    ChargePayment,
    ProvisionServer,
    RegisterDomain,
    charge_payment,
    provision_server,
    register_domain,
)

ORDER = "ord_9901"
HOST = "ord-9901.example.com"

Order = WorkflowHandle[AgentTransactionSagaWorkflow, JsonObject]
PlaceOrder = Callable[[], Awaitable[Order]]


@pytest.fixture
async def place_order(temporal_skipping: WorkflowEnvironment, world: WorldUnderTest) -> AsyncGenerator[PlaceOrder]:
    client: Client = temporal_skipping.client
    queue = f"article-{uuid.uuid4().hex[:12]}"
    started: list[Order] = []

    async def place() -> Order:
        handle = await client.start_workflow(
            AgentTransactionSagaWorkflow.run,
            args=[ORDER, 149.00, SagaOptions(visibility=False)],
            id=queue,
            task_queue=queue,
        )
        started.append(handle)
        return handle

    async with (
        providers_at(world.url),
        Worker(client, task_queue=queue, workflows=[AgentTransactionSagaWorkflow]),
    ):
        yield place
    for handle in started:
        replayer = Replayer(workflows=[AgentTransactionSagaWorkflow], plugins=[CountermandPlugin()])
        await replayer.replay_workflow(await handle.fetch_history())


async def test_an_order_is_paid_provisioned_and_routed(place_order: PlaceOrder, world: WorldUnderTest) -> None:
    assert await (await place_order()).result() == {"status": "completed", "order_id": ORDER}
    assert await world.done() == ["payments.authorize", "payments.capture", "cloud.create_cluster", "dns.register"]
    assert (await world.state()).payments.payments[0].amount_captured == 149_00


async def test_when_dns_is_declined_the_server_is_terminated_then_the_payment_refunded(
    place_order: PlaceOrder, world: WorldUnderTest
) -> None:
    await world.fault("dns.register", "decline")

    result = await (await place_order()).result()

    assert result == {
        "status": "rolled_back",
        "order_id": ORDER,
        "error": "register_domain: dns.register: declined",
        "compensations_executed": 2,
    }
    assert (await world.done())[-2:] == ["cloud.terminate_cluster", "payments.refund"]
    assert await world.standing() == []


async def test_when_dns_never_answers_all_is_undone_too(place_order: PlaceOrder, world: WorldUnderTest) -> None:
    await world.fault("dns.register", "http_503")

    result = await (await place_order()).result()

    assert result["status"] == "rolled_back"
    assert await world.standing() == []


async def test_an_order_that_is_cancelled_leaves_nothing_and_ends_with_an_answer(
    place_order: PlaceOrder, world: WorldUnderTest
) -> None:
    slow = await world.fault("dns.register", "http_503", effect="after")
    order = await place_order()
    while not await world.fired(slow):
        pass
    await order.cancel()

    assert (await order.result())["status"] == "rolled_back"
    assert (await order.describe()).status is WorkflowExecutionStatus.COMPLETED
    assert await world.standing() == []


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        (charge_payment, ChargePayment(order_id=ORDER, amount=149_00)),
        (provision_server, ProvisionServer(order_id=ORDER)),
        (register_domain, RegisterDomain(order_id=ORDER, server_id="cl_1")),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
async def test_its_tools_keep_the_contract(tool: AnyTool, args: BaseModel, world: WorldUnderTest) -> None:
    async def sample() -> BaseModel:
        # A name that is free: the example's DNS tool takes no other.
        if isinstance(args, RegisterDomain):
            return args.model_copy(update={"order_id": f"ord-{uuid.uuid4().hex[:8]}"})
        return args

    async with providers_at(world.url):
        assert await check_tool(tool, sample, world) == []


def test_it_runs_as_a_program() -> None:
    program = Path(reference_article.__file__)
    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=False)

    assert ran.returncode == 0, ran.stderr
    outcome: JsonObject = json.loads(ran.stdout[ran.stdout.index("{\n") :])
    assert (outcome["status"], outcome["order_id"], outcome["compensations_executed"]) == ("rolled_back", ORDER, 2)
