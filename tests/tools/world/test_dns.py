"""DNS: what stood before comes back, and nobody's change is overwritten."""

from pydantic import JsonValue

from countermand.tools.world.models.dns import Record, Registered, Resolved

from .caller import Caller, error, outcome, parsed

NAME: dict[str, str | int] = {"name": "app.example.com", "type": "A"}
STOOD: dict[str, JsonValue] = {**NAME, "values": ["192.0.2.7", "192.0.2.8"], "ttl": 60}


async def register(world: Caller, key: str, value: str, expected: JsonValue = None) -> Registered:
    answer = await world.post("dns.register", key, **NAME, values=[value], expected_version=expected)
    return parsed(answer, Registered)


async def stands(world: Caller) -> Record:
    return parsed(await world.get("dns.get_record", **NAME), Record)


async def resolved(world: Caller) -> list[str]:
    return parsed(await world.get("dns.resolve", **NAME), Resolved).values


async def test_a_new_record_is_gone_after_its_undo(world: Caller) -> None:
    written = await register(world, "r", "192.0.2.1")
    assert (written.previous, await stands(world)) == (None, written.record)

    assert outcome(await world.post("dns.unregister", "u", original_key="r")) == "done"

    assert (await world.get("dns.get_record", **NAME)).status_code == 404
    assert (await world.state()).dns.records == []


async def test_a_record_that_stood_before_comes_back_exactly(world: Caller) -> None:
    await world.seed(records=[STOOD])
    before = await stands(world)
    assert await world.standing() == []

    written = await register(world, "r", "192.0.2.1", expected=before.version)
    assert written.previous == before
    assert outcome(await world.post("dns.unregister", "u", original_key="r")) == "done"

    assert await stands(world) == before
    assert await world.standing() == []


async def test_any_version_can_be_replaced_on_purpose(world: Caller) -> None:
    await world.seed(records=[STOOD])
    before = await stands(world)

    assert (await register(world, "r", "192.0.2.1", expected="any")).previous == before


async def test_a_record_that_is_not_as_expected_is_left_alone(world: Caller) -> None:
    await world.seed(records=[STOOD])
    before = await stands(world)

    for key, expected in (("r1", None), ("r2", before.version + 1)):
        answer = await world.post("dns.register", key, **NAME, values=["192.0.2.1"], expected_version=expected)
        assert (answer.status_code, error(answer).code) == (409, "version_conflict")
        assert f"version {before.version}" in error(answer).message

    assert await stands(world) == before


async def test_an_undo_never_overwrites_what_somebody_changed_since(world: Caller) -> None:
    mine = await register(world, "mine", "192.0.2.1")
    theirs = await register(world, "theirs", "192.0.2.2", expected=mine.record.version)

    answer = await world.post("dns.unregister", "u", original_key="mine")

    assert (answer.status_code, error(answer).code) == (409, "changed_since")
    assert await stands(world) == theirs.record


async def test_an_undo_that_was_in_the_way_of_a_change_works_once_that_is_undone(world: Caller) -> None:
    mine = await register(world, "mine", "192.0.2.1")
    await register(world, "theirs", "192.0.2.2", expected=mine.record.version)
    await world.post("dns.unregister", "u", original_key="mine")

    assert outcome(await world.post("dns.unregister", "u2", original_key="theirs")) == "done"
    assert [effect.key for effect in await world.standing()] == ["mine"]
    assert outcome(await world.post("dns.unregister", "u", original_key="mine")) == "done"

    assert await world.standing() == []


async def test_a_version_is_never_used_twice(world: Caller) -> None:
    first = await register(world, "r1", "192.0.2.1")
    await world.post("dns.unregister", "u1", original_key="r1")
    second = await register(world, "r2", "192.0.2.1")

    assert second.record.version > first.record.version


async def test_resolvers_see_a_change_only_after_the_propagation_delay(world: Caller) -> None:
    await world.seed(records=[STOOD], propagation_delay_s=300)
    await register(world, "r", "192.0.2.1", expected="any")
    assert await resolved(world) == STOOD["values"]

    await world.let_time_pass(301)
    assert await resolved(world) == ["192.0.2.1"]

    await world.post("dns.unregister", "u", original_key="r")
    assert await resolved(world) == ["192.0.2.1"]
    await world.let_time_pass(301)
    assert await resolved(world) == STOOD["values"]


async def test_types_of_one_name_are_records_of_their_own(world: Caller) -> None:
    await register(world, "r", "192.0.2.1")

    text = await world.post("dns.register", "t", name=NAME["name"], type="TXT", values=["hello"])

    assert parsed(text, Registered).previous is None
    assert len((await world.state()).dns.records) == 2
