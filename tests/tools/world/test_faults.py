"""Every fault, before and after the effect, over real connections; each strikes exactly where it was set."""

import asyncio

import httpx2
import pytest
from pydantic import JsonValue

from countermand.tools.world.server import serve_world

from .caller import Caller, error

BODY: dict[str, JsonValue] = {"plan": "small"}
WIRE_ERRORS = {"drop": httpx2.RemoteProtocolError, "reset": httpx2.ReadError, "hang": httpx2.ReadTimeout}


async def reserve(world: Caller, key: str = "k", *, patience: float = 10) -> httpx2.Response:
    return await world.http.post("/inventory/reserve", json=BODY, headers={"Idempotency-Key": key}, timeout=patience)


@pytest.mark.parametrize("status", [400, 402, 404, 409, 422, 500, 502, 503, 504])
@pytest.mark.parametrize(("effect", "effects"), [("before", 0), ("after", 1)])
async def test_an_http_fault_gives_its_status_without_or_with_the_effect(
    world: Caller, status: int, effect: str, effects: int
) -> None:
    await world.set_fault("inventory.reserve", f"http_{status}", effect=effect)

    assert (await reserve(world)).status_code == status

    assert len(await world.effects()) == effects
    assert await world.fired() == [1]


async def test_an_error_before_the_effect_is_not_stored(world: Caller) -> None:
    await world.set_fault("inventory.reserve", "http_503", times=1)

    assert [(await reserve(world)).status_code for _ in range(2)] == [503, 200]


@pytest.mark.parametrize("kind", ["drop", "reset", "hang"])
@pytest.mark.parametrize(("effect", "effects"), [("before", 0), ("after", 1)])
async def test_a_cut_connection_gives_no_answer_without_or_with_the_effect(
    world: Caller, kind: str, effect: str, effects: int
) -> None:
    await world.set_fault("inventory.reserve", kind, effect=effect)

    with pytest.raises(WIRE_ERRORS[kind]):
        await reserve(world, patience=0.2)

    await world.until_idle("inventory", "k")
    assert len(await world.effects()) == effects
    assert await world.fired() == [1]


@pytest.mark.parametrize("effect", ["before", "after"])
async def test_a_slow_call_still_answers_and_has_its_effect(world: Caller, effect: str) -> None:
    await world.set_fault("inventory.reserve", "slow", effect=effect, delay_s=0.05)

    assert (await reserve(world)).status_code == 200
    assert len(await world.effects()) == 1


async def test_a_slow_call_that_the_client_gave_up_on_has_its_effect_late(world: Caller) -> None:
    await world.set_fault("inventory.reserve", "slow", delay_s=0.3)
    with pytest.raises(httpx2.ReadTimeout):
        await reserve(world, patience=0.1)
    assert await world.effects() == []

    assert (await world.until_idle("inventory", "k")).status == "landed"

    assert await world.effects() == [("inventory.reserve", "k")]


async def test_slow_after_the_effect_shows_the_effect_before_the_answer(world: Caller) -> None:
    await world.set_fault("inventory.reserve", "slow", effect="after", delay_s=0.2)
    call = asyncio.create_task(reserve(world))
    await world.until_in_flight("inventory", "k")

    assert await world.effects() == [("inventory.reserve", "k")]
    assert not call.done()
    assert (await call).status_code == 200


DECLINABLE: dict[str, dict[str, JsonValue]] = {
    "payments.authorize": {"amount": 1000, "currency": "usd"},
    "inventory.reserve": BODY,
    "cloud.create_cluster": {"plan": "small", "region": "us-east"},
    "dns.register": {"name": "a.example.com", "values": ["192.0.2.1"]},
    "mail.send": {"to": ["a@example.com"], "subject": "s", "body": "b"},
}


@pytest.mark.parametrize("operation", DECLINABLE)
@pytest.mark.parametrize(("effect", "effects"), [("before", 0), ("after", 1)])
async def test_a_decline_refuses_as_the_provider_does(world: Caller, operation: str, effect: str, effects: int) -> None:
    await world.set_fault(operation, "decline", effect=effect)

    answer = await world.post(operation, "k", **DECLINABLE[operation])

    declined = (402, "card_declined") if operation.startswith("payments.") else (409, "declined_by_fault")
    assert (answer.status_code, error(answer).code) == declined
    assert len(await world.effects()) == effects


@pytest.mark.parametrize("status", [429, 503])
async def test_a_fault_can_say_when_to_come_back(world: Caller, status: int) -> None:
    await world.set_fault("inventory.reserve", f"http_{status}", retry_after_s=3)

    assert (await reserve(world)).headers["Retry-After"] == "3"


@pytest.mark.parametrize(
    ("when", "struck"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"nth": 3}, [3]),
        ({"times": 2}, [1, 2]),
        ({"nth": 2, "times": 3}, [2, 3, 4]),
    ],
)
async def test_a_fault_strikes_exactly_the_calls_it_was_set_for(
    world: Caller, when: dict[str, JsonValue], struck: list[int]
) -> None:
    await world.set_fault("inventory.reserve", "http_503", **when)

    answers = [await reserve(world, f"k{n}") for n in range(1, 7)]

    assert [n for n, answer in enumerate(answers, 1) if answer.status_code == 503] == struck
    assert await world.fired() == [len(struck)]


async def test_nth_counts_from_when_the_fault_was_set(world: Caller) -> None:
    await reserve(world, "earlier")
    await world.set_fault("inventory.reserve", "http_503", nth=2)

    assert [(await reserve(world, f"k{n}")).status_code for n in range(3)] == [200, 503, 200]


async def test_a_probability_strikes_the_same_calls_for_the_same_seed(world: Caller) -> None:
    async def struck(seed: int) -> list[int]:
        await world.http.post("/reset")
        await world.set_fault("inventory.reserve", "http_503", probability=0.3, seed=seed)
        return [(await reserve(world, f"k{n}")).status_code for n in range(60)]

    first = await struck(7)

    assert first == await struck(7)
    assert first != await struck(8)
    assert 5 <= first.count(503) <= 35


async def test_a_fault_strikes_no_other_operation(world: Caller) -> None:
    await world.set_fault("inventory.reserve", "http_503")

    assert (await world.get("inventory.catalog")).status_code == 200
    assert (await world.post("inventory.release", "u", original_key="k")).status_code == 200
    assert await world.fired() == [0]


@pytest.mark.parametrize("operation", ["inventory.catalog", "inventory.probe"])
async def test_reads_and_probes_can_be_struck_too(world: Caller, operation: str) -> None:
    await world.set_fault(operation, "http_503")

    assert (await world.get(operation, **({"key": "k"} if "probe" in operation else {}))).status_code == 503


async def test_a_fault_can_be_taken_away_alone_or_with_all_others(world: Caller) -> None:
    first = await world.set_fault("inventory.reserve", "http_503")
    await world.set_fault("mail.send", "http_503")
    await world.set_fault("dns.register", "http_503")

    assert (await world.http.delete(f"/faults/{first.id}")).status_code == 200
    assert len(await world.fired()) == 2
    assert (await world.http.delete("/faults")).status_code == 200
    assert await world.fired() == []
    assert (await world.http.delete(f"/faults/{first.id}")).status_code == 404


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("operation", {"operation": "dns.registr"}),
        ("kind", {"kind": "http_777"}),
        ("kind", {"kind": "explode"}),
        ("kind", {"kind": "http_200"}),
        ("nth", {"nth": 0}),
        ("times", {"times": 0}),
        ("probability", {"probability": 2}),
        ("probability", {"probability": 0}),
        ("effect", {"effect": "during"}),
        ("delay_s", {"delay_s": -1}),
    ],
)
async def test_a_fault_that_makes_no_sense_is_refused_by_the_name_of_its_field(
    world: Caller, field: str, wrong: dict[str, JsonValue]
) -> None:
    answer = await world.http.post("/faults", json={"operation": "dns.register", "kind": "slow", **wrong})

    assert answer.status_code == 422
    assert error(answer).message.startswith(f"{field}: ")
    assert await world.fired() == []


async def test_a_hanging_call_blocks_neither_others_nor_the_end_of_the_world() -> None:
    async with serve_world() as served, httpx2.AsyncClient(base_url=served.url, timeout=10) as http:
        world = Caller(http)
        await world.set_fault("inventory.reserve", "hang", times=1)
        await world.set_fault("mail.send", "slow", delay_s=3600)
        hanging = asyncio.create_task(reserve(world, "hangs"))
        slow = asyncio.create_task(world.post("mail.send", "k", to=["a@example.com"], subject="s", body="b"))
        await world.until_in_flight("inventory", "hangs")
        await world.until_in_flight("mail", "k")
        assert (await reserve(world, "other")).status_code == 200

        closing = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - closing < 2

    for call in (hanging, slow):
        with pytest.raises(httpx2.TransportError):
            await call
