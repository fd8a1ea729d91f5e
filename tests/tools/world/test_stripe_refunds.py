"""What Stripe documents of refunds, behaviour by behaviour, against the world over HTTP."""

from tests.cases import read_json

from .caller import Caller, error, outcome
from .stripe import Shown, authorized, captured, the_payment, the_refund

_SHOWN = Shown(read_json("stripe/stripe_behaviours.json"), "ref-")
shows = _SHOWN.shows


def test_every_documented_behaviour_has_a_test() -> None:
    _SHOWN.check_all()


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
