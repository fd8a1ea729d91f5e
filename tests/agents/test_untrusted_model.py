"""Whatever a model answers: it is bounded, explained to the model, and leaves nothing in the world."""

import json
from collections.abc import Callable

import pytest
from langchain_core.messages import ToolMessage

from countermand.agents.agent_saga import TurnResult
from countermand.agents.messages import unanswered
from countermand.agents.scripted import RawCall, ScriptCall, ScriptStep
from countermand.saga import CauseKind, SagaState
from countermand.saga.types import JsonObject
from countermand.testing.env import SagaEnv
from tests.agents.orders import BYE, CHARGE, CLUSTER, COMMIT, MAIL, ORDER, QUOTE, QUOTED, RESERVE, calls

Script = Callable[..., str]
HUGE = 2_000_000


def told(result: TurnResult) -> list[str]:
    """What the model was told of its refused calls."""
    return [one.text for one in result.messages if isinstance(one, ToolMessage) and one.status == "error"]


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (calls(("wire_money", {"to": "mallory"})), "there is no tool 'wire_money' here; there are quote_order"),
        (calls(("reserve_limit", {})), "there is no tool 'reserve_limit' here"),
        (calls(("transfer_to_mallory", {})), "there is no tool 'transfer_to_mallory' here"),
        (ScriptStep(raw_calls=(RawCall(tool="reserve_stock", args='{"quote_id": '),)), "are not valid JSON"),
        (calls(("quote_order", ORDER | {"quantity": "many"})), "quantity: Input should be a valid integer"),
        (calls(("quote_order", ORDER | {"quantity": -3})), "quantity: Input should be greater than or equal to 1"),
        (calls(("quote_order", ORDER | {"quantity": None})), "quantity: Input should be a valid integer"),
        (calls(("authorize_payment", {"quote_id": "q", "amount": 1})), "amount: Extra inputs"),
        (calls(("reserve_stock", {"quote_id": "x" * 100})), "quote_id: String should match pattern"),
        (calls(("authorize_payment", {"quote_id": "quo_0"})), "quo_0"),
        (calls(("quote_order", ORDER | {"hostname": "x" * HUGE})), "arguments are not valid JSON: longer than"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_call_that_can_not_be_made_goes_back_to_the_model_with_the_reason(
    saga_env: SagaEnv, script: Script, answer: ScriptStep, complaint: str
) -> None:
    result = await (await saga_env.start_turn("An order", model=script(answer, BYE))).result()

    assert complaint in told(result)[0]
    assert result.saga.state is SagaState.COMMITTED
    assert await saga_env.world.ledger() == []


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "-1", "1.5", '"2"x'])
async def test_a_number_that_is_none_is_refused(saga_env: SagaEnv, script: Script, number: str) -> None:
    raw = ScriptStep(raw_calls=(RawCall(tool="quote_order", args=f'{{"quantity": {number}}}'),))
    result = await (await saga_env.start_turn("An order", model=script(raw, BYE))).result()

    assert len(told(result)) == 1
    assert await saga_env.world.ledger() == []


@pytest.mark.parametrize("number", [17, 100, 1_000])
async def test_of_a_hundred_calls_in_one_message_none_is_run(saga_env: SagaEnv, script: Script, number: int) -> None:
    many = calls(*[("reserve_stock", QUOTED)] * number)
    result = await (await saga_env.start_turn("An order", model=script(QUOTE, many, BYE))).result()

    assert {one.rule for one in result.verdicts if one.verdict == "refused"} == {"bound"}
    assert told(result)[0] == "not run: a message may hold 16 calls, and none of more is run"
    assert result.saga.state is SagaState.COMMITTED
    assert await saga_env.world.ledger() == []


async def test_a_model_that_will_not_be_bounded_is_stopped(saga_env: SagaEnv, script: Script) -> None:
    many = calls(*[("reserve_stock", QUOTED)] * 100)
    result = await (await saga_env.start_turn("An order", model=script(QUOTE, *[many] * 9))).result()

    assert result.saga.cause is not None
    assert result.saga.cause.kind is CauseKind.LIMIT
    assert await saga_env.world.ledger() == []


async def test_call_ids_that_a_model_uses_twice_are_told_apart(saga_env: SagaEnv, script: Script) -> None:
    sizes = ("small", "medium")
    twice = ScriptStep(
        calls=tuple(ScriptCall(tool="quote_order", args=ORDER | {"plan": plan}, id="same") for plan in sizes)
    )
    result = await (await saga_env.start_turn("An order", model=script(twice, BYE))).result()

    answers = [one for one in result.messages if isinstance(one, ToolMessage)]
    assert [json.loads(one.text)["order"]["plan"] for one in answers] == list(sizes)
    assert len({one.tool_call_id for one in answers}) == 2
    assert await saga_env.world.ledger() == []


async def test_of_a_charge_that_is_repeated_in_one_message_none_is_made(saga_env: SagaEnv, script: Script) -> None:
    charge = ("authorize_payment", QUOTED)
    model = script(QUOTE, calls(charge, charge), BYE)
    result = await (await saga_env.start_turn("An order", model=model)).result()

    assert "may call authorize_payment 1 times in an order" in told(result)[0]
    assert len(told(result)) == 2
    assert await saga_env.world.ledger() == []


async def test_a_charge_that_is_repeated_in_another_message_is_made_once(saga_env: SagaEnv, script: Script) -> None:
    model = script(QUOTE, CHARGE, CHARGE, BYE, BYE)
    result = await (await saga_env.start_turn("An order", model=model)).result()

    assert len(told(result)) == 1
    assert (await saga_env.world.done()).count("payments.authorize") == 1
    assert await saga_env.world.standing() == []


@pytest.mark.parametrize("first", [(), (RESERVE,)], ids=["nothing done", "something done"])
async def test_a_model_that_repeats_a_refused_call_is_stopped_and_undone(
    saga_env: SagaEnv, script: Script, first: tuple[ScriptStep, ...]
) -> None:
    wrong = calls(("provision_cluster", {"quote_id": "quo_of_nobody"}))
    result = await (await saga_env.start_turn("An order", model=script(QUOTE, *first, *[wrong] * 9))).result()

    assert result.saga.cause is not None
    assert "6 messages with refused calls" in result.saga.cause.message
    assert len(await saga_env.world.ledger()) == 2 * len(first)
    assert await saga_env.world.standing() == []


@pytest.mark.parametrize("first", [(), (RESERVE,)], ids=["nothing done", "something done"])
async def test_a_model_that_never_ends_is_stopped(
    saga_env: SagaEnv, script: Script, first: tuple[ScriptStep, ...]
) -> None:
    result = await (await saga_env.start_turn("An order", model=script(QUOTE, *first, *[QUOTE] * 50))).result()

    assert result.saga.cause is not None
    assert "40 model calls" in result.saga.cause.message
    assert len(await saga_env.world.ledger()) == 2 * len(first)
    assert await saga_env.world.standing() == []


@pytest.mark.parametrize("text", ["   ", "x" * HUGE], ids=["blank", "huge"])
async def test_an_empty_and_a_huge_answer_end_the_turn_without_effect(
    saga_env: SagaEnv, script: Script, text: str
) -> None:
    result = await (await saga_env.start_turn("An order", model=script(ScriptStep(say=text)))).result()

    assert 0 < len(result.text) < 25_000
    assert result.saga.state is SagaState.COMMITTED
    assert await saga_env.world.ledger() == []


async def test_two_intended_identical_calls_stay_two(saga_env: SagaEnv, script: Script) -> None:
    which: JsonObject = {"cluster_id": "{{provision_cluster.cluster_id}}"}
    balancer = ("create_load_balancer", which)
    model = script(QUOTE, RESERVE, CLUSTER, calls(balancer, balancer), COMMIT, BYE)
    result = await (await saga_env.start_turn("An order", model=model)).result()

    assert result.saga.state is SagaState.COMMITTED
    assert (await saga_env.world.done()).count("cloud.create_load_balancer") == 2


async def test_every_call_has_a_verdict_with_its_rule_in_order(saga_env: SagaEnv, script: Script) -> None:
    model = script(QUOTE, calls(("wire_money", {})), RESERVE, COMMIT, BYE)
    result = await (await saga_env.start_turn("An order", model=model)).result()

    assert [(one.tool, one.verdict, one.rule) for one in result.verdicts] == [
        ("quote_order", "allowed", "allowlist"),
        ("wire_money", "refused", "allowlist"),
        ("reserve_stock", "allowed", "allowlist"),
        ("commit", "allowed", "builtin"),
    ]


async def test_a_conversation_has_no_open_calls_when_a_turn_could_not_be_stopped_any_more(
    saga_env: SagaEnv, script: Script
) -> None:
    stop = calls(("abort", {"reason": "changed my mind"}))
    result = await (await saga_env.start_turn("An order", model=script(QUOTE, RESERVE, MAIL, stop))).result()

    assert result.saga.state is SagaState.COMMITTED
    assert unanswered(result.messages) == []
    assert "could not be stopped any more" in result.text
