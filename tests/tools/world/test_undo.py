"""The rules that every undo keeps: a no-op on what never happened, once only, and no effect after it."""

import asyncio
from dataclasses import dataclass

import pytest
from pydantic import JsonValue

from .caller import Caller, error, outcome

FORWARD, UNDO, OTHER_UNDO = "saga/t1:1", "saga/t1:1:undo", "saga/t1:1:undo-again"


@dataclass(frozen=True)
class Pair:
    """An operation, what undoes it, and a request that lands."""

    forward: str
    undo: str
    body: dict[str, JsonValue]

    @property
    def provider(self) -> str:
        return self.forward.partition(".")[0]


PAIRS = [
    Pair("inventory.reserve", "inventory.release", {"plan": "medium", "quantity": 3}),
    Pair("payments.authorize", "payments.void", {"amount": 1000, "currency": "usd"}),
    Pair("payments.capture", "payments.refund", {}),
    Pair("cloud.create_cluster", "cloud.terminate_cluster", {"plan": "medium", "region": "eu-west"}),
    Pair("cloud.create_load_balancer", "cloud.delete_load_balancer", {}),
    Pair("dns.register", "dns.unregister", {"name": "app.example.com", "values": ["192.0.2.1"]}),
]


@pytest.fixture(params=PAIRS, ids=lambda pair: pair.forward)
async def pair(request: pytest.FixtureRequest, world: Caller) -> Pair:
    """Each pair, with what its forward call stands on."""
    pair: Pair = request.param
    if pair.forward == "payments.capture":
        made = await world.post("payments.authorize", "before", amount=1000, currency="usd")
        return Pair(pair.forward, pair.undo, {"payment_id": made.json()["id"]})
    if pair.forward == "cloud.create_load_balancer":
        made = await world.post("cloud.create_cluster", "before", plan="small", region="eu-west")
        return Pair(pair.forward, pair.undo, {"cluster_id": made.json()["id"]})
    return pair


def of(effects: list[tuple[str, str | None]], pair: Pair) -> list[tuple[str, str | None]]:
    return [effect for effect in effects if effect[0] in (pair.forward, pair.undo)]


async def test_what_was_done_is_undone_once(world: Caller, pair: Pair) -> None:
    stock = await world.stock("medium")
    assert (await world.post(pair.forward, FORWARD, **pair.body)).status_code == 200

    assert outcome(await world.post(pair.undo, UNDO, original_key=FORWARD)) == "done"
    assert outcome(await world.post(pair.undo, OTHER_UNDO, original_key=FORWARD)) == "noop"

    assert of(await world.effects(), pair) == [(pair.forward, FORWARD), (pair.undo, UNDO)]
    assert FORWARD not in {effect.key for effect in await world.standing()}
    assert await world.stock("medium") == stock


async def test_the_same_undo_again_gets_the_stored_answer(world: Caller, pair: Pair) -> None:
    await world.post(pair.forward, FORWARD, **pair.body)
    first = await world.post(pair.undo, UNDO, original_key=FORWARD)

    assert (await world.post(pair.undo, UNDO, original_key=FORWARD)).content == first.content


async def test_undo_before_do_is_a_no_op_and_the_late_call_is_refused_for_good(world: Caller, pair: Pair) -> None:
    assert outcome(await world.post(pair.undo, UNDO, original_key=FORWARD)) == "noop"

    for _ in range(2):
        late = await world.post(pair.forward, FORWARD, **pair.body)
        assert (late.status_code, error(late).code) == (409, "key_tombstoned")

    assert of(await world.effects(), pair) == []
    assert (await world.probe(pair.provider, FORWARD)).status == "not_landed"


async def test_do_after_undo_is_refused(world: Caller, pair: Pair) -> None:
    await world.post(pair.forward, FORWARD, **pair.body)
    await world.post(pair.undo, UNDO, original_key=FORWARD)

    late = await world.post(pair.forward, FORWARD, **pair.body)

    assert (late.status_code, error(late).code) == (409, "key_tombstoned")
    assert len(of(await world.effects(), pair)) == 2


async def test_an_undo_that_comes_while_the_call_is_under_way_stops_its_late_effect(world: Caller, pair: Pair) -> None:
    await world.set_fault(pair.forward, "slow", delay_s=0.1)
    forward = asyncio.create_task(world.post(pair.forward, FORWARD, **pair.body))
    await world.until_in_flight(pair.provider, FORWARD)

    assert outcome(await world.post(pair.undo, UNDO, original_key=FORWARD)) == "noop"

    assert error(await forward).code == "key_tombstoned"
    assert of(await world.effects(), pair) == []


async def test_of_a_call_and_its_undo_at_once_never_both_the_effect_stands_and_the_undo_did_nothing(
    world: Caller, pair: Pair
) -> None:
    await asyncio.gather(
        world.post(pair.undo, UNDO, original_key=FORWARD), world.post(pair.forward, FORWARD, **pair.body)
    )

    assert FORWARD not in {effect.key for effect in await world.standing()}


async def test_an_undo_whose_answer_was_lost_is_repeated_under_the_same_key(world: Caller, pair: Pair) -> None:
    await world.post(pair.forward, FORWARD, **pair.body)
    await world.set_fault(pair.undo, "http_503", effect="after", nth=1)

    lost = await world.post(pair.undo, UNDO, original_key=FORWARD)
    repeated = await world.post(pair.undo, UNDO, original_key=FORWARD)

    assert lost.status_code == 503
    assert outcome(repeated) == "done"
    assert of(await world.effects(), pair) == [(pair.forward, FORWARD), (pair.undo, UNDO)]


async def test_many_undos_at_once_undo_once(world: Caller, pair: Pair) -> None:
    await world.post(pair.forward, FORWARD, **pair.body)

    answers = await asyncio.gather(*(world.post(pair.undo, f"undo-{n}", original_key=FORWARD) for n in range(10)))

    assert sorted(str(outcome(answer)) for answer in answers) == ["done"] + ["noop"] * 9
    assert len(of(await world.effects(), pair)) == 2


async def test_the_probe_tells_landed_with_the_result_not_landed_and_unknown(world: Caller, pair: Pair) -> None:
    assert (await world.probe(pair.provider, FORWARD)).status == "not_landed"
    await world.set_fault(pair.forward, "http_500", effect="after", nth=2)

    done = await world.post(pair.forward, FORWARD, **pair.body)

    landed = await world.probe(pair.provider, FORWARD)
    assert (landed.status, landed.result) == ("landed", done.json())


async def test_the_probe_tells_unknown_after_a_stored_500_though_the_undo_finds_the_effect(
    world: Caller, pair: Pair
) -> None:
    await world.set_fault(pair.forward, "http_500", effect="after")
    await world.post(pair.forward, FORWARD, **pair.body)

    assert (await world.probe(pair.provider, FORWARD)).status == "unknown"
    assert outcome(await world.post(pair.undo, UNDO, original_key=FORWARD)) == "done"


async def test_a_refused_call_is_probed_as_not_landed(world: Caller) -> None:
    await world.post("payments.authorize", FORWARD, amount=1000, currency="usd", token="tok_decline")  # noqa: S106 - a test card

    assert (await world.probe("payments", FORWARD)).status == "not_landed"


async def test_an_undo_cannot_bury_an_effect_that_it_does_not_undo(world: Caller) -> None:
    cluster = await world.post("cloud.create_cluster", "c", plan="small", region="eu-west")
    await world.post("cloud.create_load_balancer", "lb", cluster_id=cluster.json()["id"])

    answer = await world.post("cloud.terminate_cluster", UNDO, original_key="lb")

    assert error(answer).code == "wrong_undo"
    assert (await world.probe("cloud", "lb")).status == "landed"


async def test_a_refund_by_the_authorisations_key_gives_back_what_was_captured(world: Caller) -> None:
    made = await world.post("payments.authorize", "auth", amount=1000, currency="usd")
    await world.post("payments.capture", "cap", payment_id=made.json()["id"], amount=700)

    assert outcome(await world.post("payments.refund", "undo-cap", original_key="cap")) == "done"
    assert outcome(await world.post("payments.void", "undo-auth", original_key="auth")) == "noop"

    assert await world.standing() == []


async def test_what_to_undo_has_exactly_one_name(world: Caller) -> None:
    for body in ({}, {"id": "res_1", "original_key": "k"}):
        answer = await world.post("inventory.release", UNDO, **body)
        assert answer.status_code == 422
        assert "either original_key or id" in error(answer).message


async def test_an_undo_by_id_of_nothing_is_told_so(world: Caller) -> None:
    assert error(await world.post("inventory.release", UNDO, id="res_nothing")).code == "resource_missing"
