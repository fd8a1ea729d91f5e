"""The contract of every tool of ours, against the real world: what a saga relies on when it runs and when it undoes."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import timedelta

import pytest
from pydantic import BaseModel, ValidationError

from countermand.saga.errors import ToolRefused, ToolUnavailable
from countermand.saga.tool import AnyTool
from countermand.saga.types import Effect, ProbeAnswer, Probed, ToolCall, Undone
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from countermand.tools.cloud import CreateLoadBalancer, ProvisionCluster, create_load_balancer, provision_cluster
from countermand.tools.dns import RegisterDomainRoute, register_domain_route
from countermand.tools.inventory import Quote, QuoteOrder, ReserveStock, quote_order, reserve_stock
from countermand.tools.mail import SendConfirmation, send_confirmation
from countermand.tools.payments import AuthorizePayment, CapturePayment, authorize_payment, capture_payment
from countermand.tools.registry import load_tools

ORDER = QuoteOrder(
    plan="medium", region="eu-west", email="ada@example.com", hostname="ada.example.dev", load_balancers=2, quantity=3
)


@pytest.fixture(autouse=True)
async def providers(world: WorldUnderTest) -> AsyncGenerator[None]:
    async with providers_at(world.url):
        yield


def step(no: int) -> ToolCall:
    return ToolCall(saga_id="session/t1", step_no=no, key=f"session/t1:{no}")


def undo_of(call: ToolCall) -> ToolCall:
    return call.model_copy(update={"key": f"{call.step_key}:undo"})


async def forward(tool: AnyTool, call: ToolCall, args: BaseModel) -> BaseModel:
    result: BaseModel = await tool.forward(call, args)
    return result


async def undo(tool: AnyTool, call: ToolCall, args: BaseModel, result: BaseModel | None = None) -> Undone:
    assert tool.undo is not None
    return await tool.undo(undo_of(call), args, result)


async def probe(tool: AnyTool, call: ToolCall, args: BaseModel) -> Probed[BaseModel]:
    assert tool.probe is not None
    probed: Probed[BaseModel] = await tool.probe(call, args)
    return probed


async def quoted() -> Quote:
    return await quote_order.forward(step(1), ORDER)


async def for_quote() -> str:
    return (await quoted()).quote_id


async def payment() -> CapturePayment:
    made = await authorize_payment.forward(step(2), AuthorizePayment(quote_id=await for_quote()))
    return CapturePayment(payment_id=made.payment_id)


async def cluster() -> CreateLoadBalancer:
    made = await provision_cluster.forward(step(2), ProvisionCluster(quote_id=await for_quote()))
    return CreateLoadBalancer(cluster_id=made.cluster_id)


async def balancers() -> RegisterDomainRoute:
    made = [await create_load_balancer.forward(step(no), await cluster()) for no in (3, 4)]
    return RegisterDomainRoute(
        hostname=ORDER.hostname, load_balancer_ids=tuple(balancer.load_balancer_id for balancer in made)
    )


async def reservation_args() -> ReserveStock:
    return ReserveStock(quote_id=await for_quote())


async def authorization_args() -> AuthorizePayment:
    return AuthorizePayment(quote_id=await for_quote())


async def cluster_args() -> ProvisionCluster:
    return ProvisionCluster(quote_id=await for_quote())


async def mail_args() -> SendConfirmation:
    return SendConfirmation(quote_id=await for_quote())


Arguments = Callable[[], Awaitable[BaseModel]]
COMPENSABLE: list[tuple[AnyTool, str, Arguments]] = [
    (reserve_stock, "inventory.reserve", reservation_args),
    (authorize_payment, "payments.authorize", authorization_args),
    (capture_payment, "payments.capture", payment),
    (provision_cluster, "cloud.create_cluster", cluster_args),
    (create_load_balancer, "cloud.create_load_balancer", cluster),
    (register_domain_route, "dns.register", balancers),
]
IRREVERSIBLE: list[tuple[AnyTool, str, Arguments]] = [(send_confirmation, "mail.send", mail_args)]

each_compensable = pytest.mark.parametrize(
    ("tool", "operation", "arguments"), COMPENSABLE, ids=[case[0].name for case in COMPENSABLE]
)
each_effect = pytest.mark.parametrize(
    ("tool", "operation", "arguments"),
    COMPENSABLE + IRREVERSIBLE,
    ids=[case[0].name for case in COMPENSABLE + IRREVERSIBLE],
)


async def keys_of(world: WorldUnderTest, operation: str) -> list[str | None]:
    return [entry.key for entry in await world.ledger() if entry.operation == operation]


def test_every_tool_with_an_effect_is_held_to_the_contract() -> None:
    effects = {name for name, tool in load_tools().items() if tool.effect is not Effect.READ}
    ours = {tool.name for tool, _, _ in COMPENSABLE + IRREVERSIBLE}

    assert ours <= effects
    assert {tool.name for tool in load_tools().values() if tool.forward.__module__.startswith("countermand.tools")} == {
        *ours,
        # Reads, and tools that act on workflows instead of a provider.
        "quote_order",
        "look_up_domain",
        "reserve_limit",
        "revoke_order",
    }


@each_effect
async def test_a_duplicate_call_has_one_effect_and_the_same_result(
    world: WorldUnderTest, tool: AnyTool, operation: str, arguments: Arguments
) -> None:
    args = await arguments()

    first = await forward(tool, step(9), args)
    second = await forward(tool, step(9), args)

    assert first == second
    assert await keys_of(world, operation) == ["session/t1:9"]


@each_effect
async def test_the_probe_tells_not_landed_and_landed_with_the_result(
    tool: AnyTool, operation: str, arguments: Arguments
) -> None:
    args = await arguments()
    assert await probe(tool, step(9), args) == Probed(ProbeAnswer.NOT_LANDED)

    result = await forward(tool, step(9), args)

    assert await probe(tool, step(9), args) == Probed(ProbeAnswer.LANDED, result), operation


@each_effect
async def test_the_probe_tells_unknown_when_the_provider_answered_500_after_it_began(
    world: WorldUnderTest, tool: AnyTool, operation: str, arguments: Arguments
) -> None:
    args = await arguments()
    await world.fault(operation, "http_500", effect="after")
    with pytest.raises(ToolUnavailable):
        await forward(tool, step(9), args)

    assert await probe(tool, step(9), args) == Probed(ProbeAnswer.UNKNOWN)


@each_compensable
@pytest.mark.parametrize("known", [True, False])
async def test_an_undo_restores_what_was_there_and_a_second_one_changes_nothing(
    world: WorldUnderTest, tool: AnyTool, operation: str, arguments: Arguments, *, known: bool
) -> None:
    args = await arguments()
    before = await world.standing()
    result = await forward(tool, step(9), args)

    first = await undo(tool, step(9), args, result if known else None)
    effects = len(await world.ledger())
    second = await undo(tool, step(9), args, result if known else None)

    assert first.effective
    assert second == first
    assert len(await world.ledger()) == effects
    after = await world.standing()
    # What was captured can't be held again: after a refund nothing of the payment stands.
    assert after == [effect for effect in before if operation != "payments.capture" or effect.kind != "payment"]


@each_compensable
async def test_an_undo_before_the_call_is_a_no_op_and_the_late_call_is_refused(
    world: WorldUnderTest, tool: AnyTool, operation: str, arguments: Arguments
) -> None:
    args = await arguments()

    assert not (await undo(tool, step(9), args)).effective
    with pytest.raises(ToolRefused):
        await forward(tool, step(9), args)

    assert await keys_of(world, operation) in ([], [step(2).key], [step(3).key, step(4).key])
    assert step(9).key not in {effect.key for effect in await world.standing()}


@each_compensable
async def test_a_call_after_its_undo_is_refused(
    world: WorldUnderTest, tool: AnyTool, operation: str, arguments: Arguments
) -> None:
    args = await arguments()
    await forward(tool, step(9), args)
    await undo(tool, step(9), args)
    effects = await world.ledger()

    with pytest.raises(ToolRefused):
        await forward(tool, step(9), args)

    assert await world.ledger() == effects, operation


@each_compensable
async def test_an_undo_whose_answer_was_lost_is_sent_again_and_reports_what_it_did(
    world: WorldUnderTest, tool: AnyTool, operation: str, arguments: Arguments
) -> None:
    args = await arguments()
    await forward(tool, step(9), args)
    undoing = {
        "inventory.reserve": "inventory.release",
        "payments.authorize": "payments.void",
        "payments.capture": "payments.refund",
        "cloud.create_cluster": "cloud.terminate_cluster",
        "cloud.create_load_balancer": "cloud.delete_load_balancer",
        "dns.register": "dns.unregister",
    }[operation]
    await world.fault(undoing, "drop", effect="after", nth=1)

    with pytest.raises(ToolUnavailable):
        await undo(tool, step(9), args)

    assert (await undo(tool, step(9), args)).effective


@each_effect
@pytest.mark.parametrize("kind", ["http_500", "http_502", "http_503", "http_429", "drop", "reset"])
@pytest.mark.parametrize("effect", ["before", "after"])
async def test_whatever_may_have_had_its_effect_is_unavailable_and_never_refused(  # noqa: PLR0917 - a grid of cases
    world: WorldUnderTest, tool: AnyTool, operation: str, arguments: Arguments, kind: str, effect: str
) -> None:
    args = await arguments()
    await world.fault(operation, kind, effect=effect)

    with pytest.raises(ToolUnavailable, match=operation):
        await forward(tool, step(9), args)


@each_effect
@pytest.mark.parametrize("kind", ["decline", "http_400", "http_404", "http_422"])
async def test_a_refusal_is_believed_only_when_the_provider_has_no_effect_in_its_books(
    world: WorldUnderTest, tool: AnyTool, operation: str, arguments: Arguments, kind: str
) -> None:
    args = await arguments()
    await world.fault(operation, kind, effect="before", times=1)
    with pytest.raises(ToolRefused):
        await forward(tool, step(9), args)

    await world.fault(operation, kind, effect="after", times=1)
    with pytest.raises(ToolUnavailable, match="may have landed"):
        await forward(tool, step(9), args)


async def test_an_unavailable_provider_says_when_to_come_back(world: WorldUnderTest) -> None:
    args = await reservation_args()
    await world.fault("inventory.reserve", "http_503", retry_after_s=7)

    with pytest.raises(ToolUnavailable) as caught:
        await reserve_stock.forward(step(9), args)

    assert caught.value.retry_after == timedelta(seconds=7)


async def test_a_key_in_use_is_tried_again_soon(world: WorldUnderTest) -> None:
    args = await reservation_args()
    await world.fault("inventory.reserve", "slow", delay_s=0.3, times=1)
    first = asyncio.create_task(forward(reserve_stock, step(9), args))
    async with asyncio.timeout(5):
        while (await probe(reserve_stock, step(9), args)).answer is not ProbeAnswer.UNKNOWN:
            pass

    with pytest.raises(ToolUnavailable) as caught:
        await forward(reserve_stock, step(9), args)

    assert caught.value.retry_after is not None
    await first
    assert await world.done() == ["inventory.reserve"]


async def test_a_key_that_was_used_with_other_arguments_may_have_had_its_effect(world: WorldUnderTest) -> None:
    await forward(reserve_stock, step(9), await reservation_args())
    other = await quote_order.forward(step(1), ORDER.model_copy(update={"quantity": 1}))

    with pytest.raises(ToolUnavailable, match="other parameters"):
        await forward(reserve_stock, step(9), ReserveStock(quote_id=other.quote_id))

    assert await world.done() == ["inventory.reserve"]


async def test_amounts_come_from_the_quote(world: WorldUnderTest) -> None:
    quote = await quoted()
    made = await authorize_payment.forward(step(2), AuthorizePayment(quote_id=quote.quote_id))

    assert made.total == quote.total
    assert [effect.amount for effect in await world.standing()] == [quote.total.amount]
    with pytest.raises(ValidationError, match="amount"):
        AuthorizePayment.model_validate({"quote_id": quote.quote_id, "amount": 1})


async def test_a_declined_card_is_refused_in_the_providers_words(world: WorldUnderTest) -> None:
    args = AuthorizePayment(quote_id=await for_quote(), card_token="tok_insufficient_funds")  # noqa: S106 - a test card

    with pytest.raises(ToolRefused, match="insufficient_funds"):
        await authorize_payment.forward(step(2), args)

    assert await world.standing() == []


async def test_a_payment_that_was_captured_since_is_refunded_and_told_so_again(world: WorldUnderTest) -> None:
    args = await authorization_args()
    made = await authorize_payment.forward(step(9), args)
    await capture_payment.forward(step(10), CapturePayment(payment_id=made.payment_id))

    first = await undo(authorize_payment, step(9), args, made)
    again = await undo(authorize_payment, step(9), args, made)

    assert first.effective
    assert again == first
    assert await world.standing() == []


async def test_capture_and_authorisation_are_undone_in_reverse_order(world: WorldUnderTest) -> None:
    args = await authorization_args()
    made = await authorize_payment.forward(step(9), args)
    taken = CapturePayment(payment_id=made.payment_id)
    await capture_payment.forward(step(10), taken)

    assert (await undo(capture_payment, step(10), taken)).effective
    assert not (await undo(authorize_payment, step(9), args)).effective

    assert await world.standing() == []
    assert (await world.done()).count("payments.refund") == 1


async def test_a_route_that_stood_before_is_put_back(world: WorldUnderTest) -> None:
    await world.seed(records=[{"name": ORDER.hostname, "values": ["192.0.2.7"], "ttl": 60}])
    before = (await world.state()).dns.records
    args = await balancers()
    route = await register_domain_route.forward(step(9), args)
    assert len(route.addresses) == 2

    await undo(register_domain_route, step(9), args, route)

    assert (await world.state()).dns.records == before


async def test_a_route_that_somebody_changed_since_is_not_touched(world: WorldUnderTest) -> None:
    args = await balancers()
    await forward(register_domain_route, step(9), args)
    await forward(register_domain_route, step(10), args)

    with pytest.raises(ToolRefused, match="changed since"):
        await undo(register_domain_route, step(9), args)

    assert step(10).key in {effect.key for effect in await world.standing()}


async def test_a_cluster_is_ready_when_the_tool_answers(world: WorldUnderTest) -> None:
    args = await cluster_args()
    await world.seed(provision_delay_s=0.3)

    made = await provision_cluster.forward(step(9), args)

    assert made.status == "ready"


async def test_a_cluster_whose_provisioning_was_lost_sight_of_is_found_and_waited_for(world: WorldUnderTest) -> None:
    args = await cluster_args()
    await world.seed(provision_delay_s=0.3)
    await world.fault("cloud.get_cluster", "http_503", nth=1)
    with pytest.raises(ToolUnavailable):
        await provision_cluster.forward(step(9), args)

    found = await probe(provision_cluster, step(9), args)

    assert found.answer is ProbeAnswer.LANDED
    assert found.result is not None
    assert found.result.model_dump()["status"] == "ready"


async def test_the_confirmation_goes_to_the_customer_and_lists_what_was_ordered(world: WorldUnderTest) -> None:
    quote = await quoted()

    await send_confirmation.forward(step(9), SendConfirmation(quote_id=quote.quote_id))

    (message,) = (await world.state()).mail.messages
    assert message.to == [ORDER.email]
    assert "483.00 USD" in message.body
    assert ORDER.hostname in message.body
    assert quote.quote_id in message.body


async def test_a_quote_that_there_is_not_is_refused_before_any_effect(world: WorldUnderTest) -> None:
    for tool, args in (
        (reserve_stock, ReserveStock(quote_id="quo_none")),
        (authorize_payment, AuthorizePayment(quote_id="quo_none")),
        (provision_cluster, ProvisionCluster(quote_id="quo_none")),
        (send_confirmation, SendConfirmation(quote_id="quo_none")),
    ):
        with pytest.raises(ToolRefused, match="quo_none"):
            await forward(tool, step(9), args)

    assert await world.ledger() == []


def test_every_argument_is_described_to_the_model_and_nothing_else_is_taken() -> None:
    for tool, _, _ in [*COMPENSABLE, *IRREVERSIBLE, (quote_order, "", reservation_args)]:
        schema = tool.args.model_json_schema()
        assert schema["additionalProperties"] is False, tool.name
        assert all("description" in field for field in schema["properties"].values()), tool.name
