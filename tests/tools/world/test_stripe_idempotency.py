"""What Stripe documents of idempotency keys, behaviour by behaviour, against the world over HTTP."""

import asyncio

import httpx2
import pytest

from countermand.tools.world.models.payments import Payment
from tests.cases import read_json

from .caller import Caller, error, parsed
from .stripe import Shown, authorized, the_payment

# idem-12 is API v2's retries; the world follows v1, where idem-03 holds instead.
_SHOWN = Shown(read_json("stripe/stripe_behaviours.json"), "idem-", "err-02", not_ours={"idem-12"})
shows = _SHOWN.shows


def test_every_documented_behaviour_has_a_test() -> None:
    _SHOWN.check_all()


@shows("idem-01")
async def test_the_same_call_again_gets_the_stored_answer_and_makes_no_second_object(world: Caller) -> None:
    first = await world.post("payments.authorize", "k", amount=1000, currency="usd")
    second = await world.post("payments.authorize", "k", amount=1000, currency="usd")

    assert (second.status_code, second.content) == (first.status_code, first.content)
    assert second.headers["Idempotent-Replayed"] == "true"
    assert await world.effects() == [("payments.authorize", "k")]


@shows("idem-02")
async def test_a_key_with_other_parameters_or_at_another_endpoint_is_an_error_without_effect(world: Caller) -> None:
    payment = await authorized(world, key="k")

    other_amount = await world.post("payments.authorize", "k", amount=999, currency="usd")
    other_endpoint = await world.post("payments.capture", "k", payment_id=payment.id)

    for answer in (other_amount, other_endpoint):
        assert answer.status_code == 400
        assert error(answer).type == "idempotency_error"
    assert await world.effects() == [("payments.authorize", "k")]


@shows("idem-03", "err-02")
async def test_a_500_after_execution_began_is_stored_and_the_object_tells_the_truth(world: Caller) -> None:
    await world.set_fault("payments.authorize", "http_500", effect="after", nth=1)

    answers = [await world.post("payments.authorize", "k", amount=1000, currency="usd") for _ in range(3)]

    assert [answer.status_code for answer in answers] == [500, 500, 500]
    assert (await the_payment(world)).status == "authorized"
    assert (await world.probe("payments", "k")).status == "unknown"
    assert len(await world.effects()) == 1


@shows("idem-04")
async def test_a_400_of_the_execution_is_stored_and_the_corrected_call_needs_a_new_key(world: Caller) -> None:
    payment = await authorized(world, amount=1000)

    first = await world.post("payments.capture", "k", payment_id=payment.id, amount=2000)
    again = await world.post("payments.capture", "k", payment_id=payment.id, amount=2000)
    corrected = await world.post("payments.capture", "k2", payment_id=payment.id, amount=1000)

    assert first.status_code == again.status_code == 400
    assert first.content == again.content
    assert again.headers["Idempotent-Replayed"] == "true"
    assert parsed(corrected, Payment).amount_captured == 1000


@shows("idem-05")
@pytest.mark.parametrize("effect", ["before", "after"])
async def test_a_429_is_not_stored(world: Caller, effect: str) -> None:
    await world.set_fault("payments.authorize", "http_429", effect=effect, nth=1, retry_after_s=7)

    limited = await world.post("payments.authorize", "k", amount=1000, currency="usd")
    retried = await world.post("payments.authorize", "k", amount=1000, currency="usd")

    assert (limited.status_code, limited.headers["Retry-After"]) == (429, "7")
    assert parsed(retried, Payment).status == "authorized"
    assert len(await world.effects()) == 1


@shows("idem-06")
async def test_a_refused_parameter_is_not_stored(world: Caller) -> None:
    refused = await world.post("payments.authorize", "k", amount=0, currency="usd")
    corrected = await world.post("payments.authorize", "k", amount=1000, currency="usd")

    assert refused.status_code == 422
    assert "amount" in error(refused).message
    assert parsed(corrected, Payment).amount == 1000


@shows("idem-07")
async def test_of_two_calls_in_flight_with_one_key_exactly_one_is_executed(world: Caller) -> None:
    await world.set_fault("payments.authorize", "slow", nth=1, delay_s=0.2)
    first = asyncio.create_task(world.post("payments.authorize", "k", amount=1000, currency="usd"))
    await world.until_in_flight("payments", "k")

    second = await world.post("payments.authorize", "k", amount=1000, currency="usd")

    assert second.status_code == 409
    assert error(second).code == "idempotency_key_in_use"
    assert parsed(await first, Payment).status == "authorized"
    assert len(await world.effects()) == 1


@shows("idem-08")
async def test_a_key_is_still_known_after_a_month_so_no_second_charge_is_possible(world: Caller) -> None:
    first = await authorized(world, key="k")
    await world.let_time_pass(30 * 86_400)

    assert await authorized(world, key="k") == first
    assert len([row for row in await world.effects() if row[1] == "k"]) == 1


@shows("idem-09")
async def test_a_key_may_have_255_characters_and_no_more(world: Caller) -> None:
    longest = await world.post("payments.authorize", "k" * 255, amount=1000, currency="usd")
    too_long = await world.post("payments.authorize", "k" * 256, amount=1000, currency="usd")

    assert longest.status_code == 200
    assert too_long.status_code == 422
    assert "Idempotency-Key" in error(too_long).message
    assert len(await world.effects()) == 1


@shows("idem-10")
@pytest.mark.parametrize("effect", ["before", "after"])
async def test_after_a_lost_connection_the_same_call_brings_one_effect(world: Caller, effect: str) -> None:
    await world.set_fault("payments.authorize", "drop", effect=effect, nth=1)

    with pytest.raises(httpx2.RemoteProtocolError):
        await world.post("payments.authorize", "k", amount=1000, currency="usd")

    assert parsed(await world.post("payments.authorize", "k", amount=1000, currency="usd"), Payment).key == "k"
    assert await world.effects() == [("payments.authorize", "k")]


@shows("idem-11")
async def test_an_effect_without_a_key_is_refused_since_a_retry_would_charge_twice(world: Caller) -> None:
    answer = await world.http.post("/payments/authorize", json={"amount": 1000, "currency": "usd"})

    assert answer.status_code == 422
    assert "Idempotency-Key" in error(answer).message
    assert await world.effects() == []
