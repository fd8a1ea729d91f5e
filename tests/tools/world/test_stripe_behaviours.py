"""What Stripe documents, behaviour by behaviour, against the world over HTTP."""

import asyncio
from collections.abc import Callable
from typing import TypeVar, cast

import httpx
import pytest
from pydantic import BaseModel, TypeAdapter

from countermand.tools.world.cards import CARDS
from countermand.tools.world.models.payments import Payment, RefundAnswer
from tests.cases import read_json

from .caller import Caller, error, outcome, parsed

NOT_OURS = {"idem-12": "API v2's retries; the world follows v1, where idem-03 holds instead"}

FunctionT = TypeVar("FunctionT", bound=Callable[..., object])
_tested: set[str] = set()


class Behaviour(BaseModel):
    id: str


class StripeCard(BaseModel):
    number: str
    error_code: str | None
    decline_code: str | None


def _cases(section: str) -> object:
    return cast("dict[str, object]", read_json("stripe/stripe_behaviours.json"))[section]


def shows(*behaviours: str) -> Callable[[FunctionT], FunctionT]:
    _tested.update(behaviours)
    return lambda test: test


async def authorized(world: Caller, *, key: str = "auth", amount: int = 1000, token: str = "tok_visa") -> Payment:  # noqa: S107 - a test card
    answer = await world.post("payments.authorize", key, amount=amount, currency="usd", token=token)
    return parsed(answer, Payment)


async def captured(world: Caller, *, amount: int = 1000, token: str = "tok_visa") -> Payment:  # noqa: S107 - a test card
    payment = await authorized(world, amount=amount, token=token)
    return parsed(await world.post("payments.capture", "cap", payment_id=payment.id), Payment)


async def the_payment(world: Caller) -> Payment:
    (payment,) = (await world.state()).payments.payments
    return payment


async def the_refund(world: Caller) -> RefundAnswer:
    (refund,) = (await world.state()).payments.refunds
    return refund


def test_every_documented_behaviour_has_a_test() -> None:
    documented = {case.id for case in TypeAdapter(list[Behaviour]).validate_python(_cases("behaviours"))}

    assert _tested | NOT_OURS.keys() == documented


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

    with pytest.raises(httpx.RemoteProtocolError):
        await world.post("payments.authorize", "k", amount=1000, currency="usd")

    assert parsed(await world.post("payments.authorize", "k", amount=1000, currency="usd"), Payment).key == "k"
    assert await world.effects() == [("payments.authorize", "k")]


@shows("idem-11")
async def test_an_effect_without_a_key_is_refused_since_a_retry_would_charge_twice(world: Caller) -> None:
    answer = await world.http.post("/payments/authorize", json={"amount": 1000, "currency": "usd"})

    assert answer.status_code == 422
    assert "Idempotency-Key" in error(answer).message
    assert await world.effects() == []


@shows("ref-01")
async def test_a_second_full_refund_under_another_key_is_an_error(world: Caller) -> None:
    payment = await captured(world)
    assert outcome(await world.post("payments.refund", "r1", id=payment.id)) == "done"

    second = await world.post("payments.refund", "r2", id=payment.id)

    assert (error(second).type, error(second).code) == ("invalid_request_error", "charge_already_refunded")
    assert (await the_payment(world)).amount_refunded == 1000


@shows("ref-02")
async def test_two_equal_partial_refunds_under_different_keys_both_go_out(world: Caller) -> None:
    payment = await captured(world)

    for key in ("r1", "r2"):
        assert outcome(await world.post("payments.refund", key, id=payment.id, amount=400)) == "done"

    assert (await the_payment(world)).amount_refunded == 800
    assert [effect.amount for effect in await world.standing()] == [200]


@shows("ref-03")
async def test_refunds_cannot_pass_the_charge(world: Caller) -> None:
    payment = await captured(world)
    await world.post("payments.refund", "r1", id=payment.id, amount=700)

    too_much = await world.post("payments.refund", "r2", id=payment.id, amount=301)

    assert error(too_much).code == "amount_too_large"
    assert (await the_payment(world)).amount_refunded == 700


@shows("ref-04")
async def test_a_refund_can_be_reported_done_and_fail_later_and_the_ledger_shows_it(world: Caller) -> None:
    payment = await captured(world, token="tok_refund_fails_later")  # noqa: S106 - a test card
    await world.post("payments.refund", "r", id=payment.id)
    assert (await the_refund(world)).status == "succeeded"
    assert await world.standing() == []

    await world.let_time_pass(61)

    assert (await the_refund(world)).status == "failed"
    assert (await the_payment(world)).amount_refunded == 0
    assert [effect.amount for effect in await world.standing()] == [1000]
    assert [row[0] for row in await world.effects()][-1] == "payments.refund_failed"


@shows("ref-05")
async def test_a_refund_can_be_pending_and_succeed_later(world: Caller) -> None:
    payment = await captured(world, token="tok_refund_succeeds_later")  # noqa: S106 - a test card
    await world.post("payments.refund", "r", id=payment.id)
    assert (await the_refund(world)).status == "pending"

    await world.let_time_pass(61)

    assert (await the_refund(world)).status == "succeeded"


@shows("ref-06")
async def test_a_refund_waits_for_the_balance(world: Caller) -> None:
    payment = await captured(world)
    await world.seed(refunds_held=True)
    await world.post("payments.refund", "r", id=payment.id)
    await world.let_time_pass(86_400)
    assert (await the_refund(world)).status == "pending"

    await world.seed(refunds_held=False)

    assert (await the_refund(world)).status == "succeeded"


@shows("ref-07")
async def test_a_refund_cannot_name_another_card(world: Caller) -> None:
    payment = await captured(world)

    answer = await world.post("payments.refund", "r", id=payment.id, token="tok_other")  # noqa: S106 - a test card

    assert answer.status_code == 422
    assert "token" in error(answer).message


@shows("ref-08")
async def test_a_refund_cannot_be_cancelled(world: Caller) -> None:
    payment = await captured(world)
    await world.post("payments.refund", "r", id=payment.id)

    answer = await world.post("payments.cancel_refund", "c", id=(await the_refund(world)).id)

    assert answer.status_code == 404
    assert (await the_payment(world)).amount_refunded == 1000


@shows("ref-09")
async def test_an_uncaptured_payment_is_voided_and_not_refunded(world: Caller) -> None:
    payment = await authorized(world)

    wrong_verb = await world.post("payments.refund", "r", original_key="auth")
    right_verb = await world.post("payments.void", "v", id=payment.id)

    assert error(wrong_verb).code == "payment_not_captured"
    assert outcome(right_verb) == "done"
    assert (await world.state()).payments.refunds == []
    assert await world.standing() == []


@shows("cap-01")
async def test_a_capture_takes_what_was_held(world: Caller) -> None:
    payment = await captured(world)

    assert (payment.status, payment.amount_captured) == ("captured", 1000)


@shows("cap-02")
async def test_a_smaller_capture_releases_the_rest_for_good(world: Caller) -> None:
    payment = await authorized(world)
    part = parsed(await world.post("payments.capture", "c1", payment_id=payment.id, amount=600), Payment)

    rest = await world.post("payments.capture", "c2", payment_id=payment.id, amount=400)

    assert part.amount_captured == 600
    assert error(rest).code == "charge_already_captured"
    assert [effect.amount for effect in await world.standing()] == [600]


@shows("cap-03")
async def test_a_capture_cannot_take_more_than_was_held(world: Caller) -> None:
    payment = await authorized(world)

    answer = await world.post("payments.capture", "c", payment_id=payment.id, amount=1001)

    assert answer.status_code == 400
    assert (await the_payment(world)).status == "authorized"


@shows("cap-04")
async def test_a_second_capture_is_an_error_without_effect(world: Caller) -> None:
    payment = await captured(world)

    answer = await world.post("payments.capture", "c2", payment_id=payment.id)

    assert error(answer).code == "charge_already_captured"
    assert (await the_payment(world)).amount_captured == 1000


@shows("cap-05", "cap-06")
async def test_a_hold_lapses_after_seven_days_and_not_before(world: Caller) -> None:
    payment = await authorized(world)
    await world.let_time_pass(7 * 86_400 - 60)
    assert (await the_payment(world)).status == "authorized"

    await world.let_time_pass(61)
    answer = await world.post("payments.capture", "c", payment_id=payment.id)

    assert error(answer).code == "charge_expired_for_capture"
    assert await world.standing() == []
    assert outcome(await world.post("payments.void", "v", original_key="auth")) == "noop"


@shows("can-01")
async def test_a_void_releases_the_hold(world: Caller) -> None:
    payment = await authorized(world)

    assert outcome(await world.post("payments.void", "v", id=payment.id)) == "done"

    assert (await the_payment(world)).status == "voided"
    assert await world.standing() == []


@shows("can-02")
async def test_a_captured_payment_cannot_be_voided(world: Caller) -> None:
    payment = await captured(world)

    by_id = await world.post("payments.void", "v1", id=payment.id)
    by_key = await world.post("payments.void", "v2", original_key="auth")

    assert error(by_id).code == "payment_intent_unexpected_state"
    assert error(by_key).code == "payment_captured"
    assert (await the_payment(world)).status == "captured"


@shows("can-03")
async def test_a_second_void_is_an_error_by_id_and_a_no_op_by_key(world: Caller) -> None:
    payment = await authorized(world)
    await world.post("payments.void", "v1", id=payment.id)

    by_id = await world.post("payments.void", "v2", id=payment.id)
    by_key = await world.post("payments.void", "v3", original_key="auth")

    assert error(by_id).code == "payment_intent_unexpected_state"
    assert outcome(by_key) == "noop"
    assert len(await world.effects()) == 2


@shows("can-04")
@pytest.mark.parametrize(
    ("operation", "body"), [("payments.capture", "payment_id"), ("payments.void", "id"), ("payments.refund", "id")]
)
async def test_nothing_can_be_done_with_a_voided_payment(world: Caller, operation: str, body: str) -> None:
    payment = await authorized(world)
    await world.post("payments.void", "v1", id=payment.id)

    answer = await world.post(operation, "later", **{body: payment.id})

    assert error(answer).code == "payment_intent_unexpected_state"
    assert len(await world.effects()) == 2


@shows("err-01")
@pytest.mark.parametrize(
    "card", TypeAdapter(list[StripeCard]).validate_python(_cases("test_cards")), ids=lambda card: card.number
)
async def test_every_test_card_does_what_its_documentation_says(world: Caller, card: StripeCard) -> None:
    (token,) = [token for token, known in CARDS.items() if known.number == card.number]

    answer = await world.post("payments.authorize", "k", amount=1000, currency="usd", token=token)

    if card.error_code is None:
        assert parsed(answer, Payment).status == "authorized"
        return
    assert answer.status_code == 402
    assert error(answer).type == "card_error"
    assert card.error_code.startswith(error(answer).code)
    assert error(answer).decline_code == card.decline_code
    assert await world.effects() == []
