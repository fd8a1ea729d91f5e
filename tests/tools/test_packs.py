"""The contract of every tool of ours, against the real world: what a saga relies on when it runs and when it undoes."""

import pytest

from countermand.saga.errors import ToolRefused, ToolUnavailable
from countermand.saga.tool import AnyTool
from countermand.saga.types import Effect, ProbeAnswer, Probed
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.inventory import quote_order
from countermand.tools.registry import load_tools
from tests.tools.packs import COMPENSABLE, IRREVERSIBLE, Arguments, forward, probe, reservation_args, step, undo

pytestmark = pytest.mark.usefixtures("providers")

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
        "read_mail",
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


def test_every_argument_is_described_to_the_model_and_nothing_else_is_taken() -> None:
    for tool, _, _ in [*COMPENSABLE, *IRREVERSIBLE, (quote_order, "", reservation_args)]:
        schema = tool.args.model_json_schema()
        assert schema["additionalProperties"] is False, tool.name
        assert all("description" in field for field in schema["properties"].values()), tool.name
