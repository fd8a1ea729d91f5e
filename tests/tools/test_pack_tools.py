"""What each tool of the packs does beyond the contract of all: amounts, refusals, waiting, words to the customer."""

import asyncio
from datetime import timedelta

import pytest
from pydantic import ValidationError

from countermand.saga.errors import ToolRefused, ToolUnavailable
from countermand.saga.types import ProbeAnswer
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.cloud import ProvisionCluster, provision_cluster
from countermand.tools.dns import register_domain_route
from countermand.tools.inventory import ReserveStock, quote_order, reserve_stock
from countermand.tools.mail import SendConfirmation, send_confirmation
from countermand.tools.payments import AuthorizePayment, CapturePayment, authorize_payment, capture_payment
from tests.tools.packs import (
    ORDER,
    authorization_args,
    balancers,
    cluster_args,
    for_quote,
    forward,
    probe,
    quoted,
    reservation_args,
    step,
    undo,
)

pytestmark = pytest.mark.usefixtures("providers")


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


@pytest.mark.parametrize("kind", ["http_503", "decline"])
async def test_a_cluster_whose_provisioning_was_lost_sight_of_is_found_and_waited_for(
    world: WorldUnderTest, kind: str
) -> None:
    args = await cluster_args()
    await world.seed(provision_delay_s=0.3)
    await world.fault("cloud.get_cluster", kind, nth=1)
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
