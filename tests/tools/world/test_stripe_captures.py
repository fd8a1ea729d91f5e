"""What Stripe documents of captures, voids and cards, behaviour by behaviour, against the world over HTTP."""

import pytest

from countermand.tools.world.cards import CARDS
from countermand.tools.world.models.payments import Payment
from tests.cases import read_json

from .caller import Caller, error, outcome, parsed
from .stripe import Shown, StripeCard, authorized, captured, the_payment

_SHOWN = Shown(read_json("stripe/stripe_behaviours.json"), "cap-", "can-", "err-01")
shows = _SHOWN.shows


def test_every_documented_behaviour_has_a_test() -> None:
    _SHOWN.check_all()


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
@pytest.mark.parametrize("card", _SHOWN.documented.test_cards, ids=lambda card: card.number)
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
