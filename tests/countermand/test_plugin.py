"""``CountermandPlugin`` in a worker that exists already: its own workflows and activities, and sagas among them."""

import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import timedelta

import pytest
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.converter import DataConverter, PayloadCodec
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker
from typing_extensions import override

from countermand.plugin import CountermandPlugin
from countermand.saga import SagaReport, SagaState, transaction
from countermand.saga.types import Compensation
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from countermand.tools.inventory import QuoteOrder, ReserveStock, quote_order, reserve_stock
from countermand.tools.payments import AuthorizePayment, authorize_payment


@activity.defn
async def greet(name: str) -> str:
    return f"Hello {name}"


@workflow.defn
class Greeting:
    """What the worker did before: an activity of its own, and now a saga."""

    @workflow.run
    async def run(self, card: str) -> str:
        hello = await workflow.execute_activity(greet, "Ada", start_to_close_timeout=timedelta(seconds=5))
        async with transaction() as saga:
            order = QuoteOrder(plan="small", region="eu-west", email="ada@example.com", hostname="ada.example.dev")
            quote = await saga.run(quote_order, order)
            await saga.run(reserve_stock, ReserveStock(quote_id=quote.quote_id))
            await saga.run(authorize_payment, AuthorizePayment(quote_id=quote.quote_id, card_token=card))
        return f"{hello}, that makes {quote.total.amount}"


class Reversing(PayloadCodec):
    """Stands for a codec that encrypts."""

    @override
    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload(metadata={"encoding": b"reversed"}, data=one.SerializeToString()[::-1]) for one in payloads]

    @override
    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload.FromString(one.data[::-1]) for one in payloads]


Own = Callable[[str], Awaitable[WorkflowHandle[Greeting, str]]]


@pytest.fixture
async def greeting(temporal_local: Client, world: WorldUnderTest) -> AsyncGenerator[Own]:
    """As a user has it: a client with a codec, a worker with workflows and activities, and the plugin in one line."""
    client = await Client.connect(
        temporal_local.service_client.config.target_host,
        namespace=temporal_local.namespace,
        data_converter=DataConverter(payload_codec=Reversing()),
        plugins=[CountermandPlugin()],
    )
    queue = f"own-{uuid.uuid4().hex[:12]}"

    async def start(card: str) -> WorkflowHandle[Greeting, str]:
        return await client.start_workflow(Greeting.run, card, id=queue, task_queue=queue)

    async with providers_at(world.url), Worker(client, task_queue=queue, workflows=[Greeting], activities=[greet]):
        yield start


async def test_a_workflow_of_ones_own_commits_a_transaction(greeting: Own, world: WorldUnderTest) -> None:
    said = await (await greeting("tok_visa")).result()

    assert said.startswith("Hello Ada, that makes ")
    assert await world.done() == ["inventory.reserve", "payments.authorize"]


async def test_a_workflow_that_lets_the_rollback_pass_fails_with_the_sagas_report(
    greeting: Own, world: WorldUnderTest
) -> None:
    with pytest.raises(WorkflowFailureError) as caught:
        await (await greeting("tok_decline")).result()

    assert isinstance(caught.value.cause, ApplicationError)
    assert caught.value.cause.type == "SagaRolledBack"
    report = SagaReport.model_validate(caught.value.cause.details[0])
    assert (report.state, report.steps[1].compensation) == (SagaState.COMPENSATED, Compensation.DONE)
    assert await world.standing() == []


async def test_the_clients_own_codec_stays(greeting: Own) -> None:
    handle = await greeting("tok_visa")
    await handle.result()

    begun = (await handle.fetch_history()).events[0].workflow_execution_started_event_attributes
    assert begun.input.payloads[0].metadata["encoding"] == b"reversed"


async def test_a_worker_whose_client_can_not_carry_sagas_is_refused_with_what_to_do(temporal_local: Client) -> None:
    host = temporal_local.service_client.config.target_host
    plain = await Client.connect(host, namespace=temporal_local.namespace)

    with pytest.raises(ValueError, match=r"give CountermandPlugin\(\) to Client.connect"):
        Worker(plain, task_queue="own", plugins=[CountermandPlugin()])
