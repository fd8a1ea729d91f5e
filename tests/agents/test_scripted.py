"""The scripted model: answers by its script, alone and in a turn, and says where run and script part ways."""

from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from pydantic import BaseModel

from countermand.agents.models import ModelUnavailable, resolve_model
from countermand.agents.scripted import Expect, RawCall, ScriptCall, ScriptedModel, ScriptMismatch, ScriptStep
from countermand.saga import CauseKind, SagaState
from countermand.testing.env import SagaEnv

ORDER = {"plan": "small", "region": "eu-west", "email": "ada@example.com", "hostname": "ada.example.dev"}

ASK = ScriptStep(
    expect=Expect(said="small environment", offered=("quote_order",)),
    calls=(ScriptCall(tool="quote_order", args={**ORDER}),),
)
RESERVE = ScriptStep(
    expect=Expect(last_tool="quote_order"),
    calls=(ScriptCall(tool="reserve_stock", args={"quote_id": "{{quote_order.quote_id}}"}),),
)
COMMIT = ScriptStep(calls=(ScriptCall(tool="commit"),))
BYE = ScriptStep(say="It is reserved.")


class QuoteOrder(BaseModel):
    """A tool as it is offered."""


class Pay(BaseModel):
    """Another one."""


def model(*steps: ScriptStep) -> ScriptedModel:
    return ScriptedModel(steps=steps)


def call(message: AIMessage) -> tuple[str, object]:
    return message.tool_calls[0]["name"], message.tool_calls[0]["args"]


def asked(*results: tuple[str, str]) -> list[BaseMessage]:
    """A conversation in which each result answered a call of its own."""
    messages: list[BaseMessage] = [HumanMessage("A small environment, please")]
    for no, (tool, result) in enumerate(results):
        messages += [AIMessage("", tool_calls=[{"name": tool, "args": {}, "id": f"c{no}"}])]
        messages += [ToolMessage(result, name=tool, tool_call_id=f"c{no}")]
    return messages


def test_the_step_follows_from_the_conversation_not_from_the_object() -> None:
    scripted = model(ScriptStep(say="one"), ScriptStep(say="two"))
    begin: list[BaseMessage] = [HumanMessage("hi")]

    assert [scripted.invoke(begin).text, scripted.invoke(begin).text] == ["one", "one"]
    assert scripted.invoke([*begin, AIMessage("one"), HumanMessage("and?")]).text == "two"


def test_what_the_saga_tells_of_a_rollback_is_no_step() -> None:
    scripted = model(ScriptStep(say="one"), ScriptStep(say="two"))

    assert scripted.invoke([HumanMessage("hi"), AIMessage("Rolled back: the card was declined.")]).text == "one"


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ("{{quote.id}}", "q2"),
        ("{{quote[0].id}}", "q1"),
        ("{{ quote.total.amount }}", 14900),
        ("pay {{quote.total.amount}} for {{quote[0].id}}", "pay 14900 for q1"),
    ],
)
def test_arguments_are_filled_from_earlier_results(reference: str, value: object) -> None:
    said = asked(("quote", '{"id": "q1"}'), ("quote", '{"id": "q2", "total": {"amount": 14900}}'))
    pay = ScriptStep(calls=(ScriptCall(tool="pay", args={"what": reference, "all": [{"of": reference}]}),))

    assert call(model(BYE, BYE, pay).invoke(said)) == ("pay", {"what": value, "all": [{"of": value}]})


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            ScriptStep(expect=Expect(said="a large one"), say="x"),
            "the script, step 1: expected the user to say 'a large one', got 'A small environment, please'",
        ),
        (
            ScriptStep(expect=Expect(last_tool="pay"), say="x"),
            "the script, step 1: expected an answer of pay, got a message of type human: 'A small environment, please'",
        ),
        (
            ScriptStep(expect=Expect(agent="billing"), say="x"),
            "the script, step 1: expected to be asked by billing, was by nobody known",
        ),
        (
            ScriptStep(expect=Expect(offered=("Pay", "refund")), say="x"),
            "the script, step 1: expected the tools refund to be offered, got QuoteOrder, Pay",
        ),
        (
            ScriptStep(calls=(ScriptCall(tool="pay", args={"id": "{{quote.id}}"}),)),
            "the script, step 1: expected a result for {{quote.id}}, got 0 results of quote",
        ),
    ],
)
def test_where_they_part_ways_the_error_says_step_expected_and_got(step: ScriptStep, message: str) -> None:
    with pytest.raises(ScriptMismatch) as caught:
        model(step).bind_tools([QuoteOrder, Pay]).invoke(asked())

    assert caught.value.message == message


def test_a_field_that_a_result_lacks_is_named() -> None:
    step = ScriptStep(calls=(ScriptCall(tool="pay", args={"id": "{{quote.total.amount}}"}),))

    with pytest.raises(ScriptMismatch, match=r"step 2: expected 'total' for .*, got \{\"id\": \"q1\"\}"):
        model(BYE, step).invoke(asked(("quote", '{"id": "q1"}')))


def test_a_run_that_goes_on_after_the_script_ends_is_told_so() -> None:
    with pytest.raises(ScriptMismatch, match="step 2: expected no more model calls, the script has 1 steps"):
        model(BYE).invoke([HumanMessage("hi"), AIMessage("It is reserved."), HumanMessage("and now?")])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- say: [", "script {path}: "),
        ("say: hello", "script {path}: the whole: Input should be a valid tuple"),
        ("- say: hello\n- sy: hello", "script {path}: step 2.sy: Extra inputs are not permitted"),
        ("- expect: {said: hi}", "script {path}: step 1: Value error, a step must say something or call something"),
    ],
)
def test_a_script_that_is_none_is_refused_with_the_step_and_the_field(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(text)

    with pytest.raises(ModelUnavailable) as caught:
        resolve_model(f"script:{path}")

    assert str(caught.value).startswith(problem.format(path=path))


async def test_a_turn_runs_by_its_script(saga_env: SagaEnv, script: Callable[..., str]) -> None:
    turn = await saga_env.start_turn("A small environment", model=script(ASK, RESERVE, COMMIT, BYE))
    result = await turn.result()

    assert (result.text, result.saga.state) == ("It is reserved.", SagaState.COMMITTED)
    assert await saga_env.world.done() == ["inventory.reserve"]


async def test_a_turn_that_leaves_its_script_is_rolled_back_with_the_reason(
    saga_env: SagaEnv, script: Callable[..., str]
) -> None:
    wrong = ScriptStep(expect=Expect(last_tool="authorize_payment"), say="x")
    turn = await saga_env.start_turn("A small environment", model=script(ASK, RESERVE, wrong))
    result = await turn.result()

    assert result.saga.cause is not None
    assert result.saga.cause.kind is CauseKind.MODEL
    assert "step 3: expected an answer of authorize_payment, got an answer of reserve_stock" in result.text
    assert await saga_env.world.standing() == []


async def test_a_call_that_is_no_json_goes_back_to_the_model(saga_env: SagaEnv, script: Callable[..., str]) -> None:
    garbled = ScriptStep(raw_calls=(RawCall(tool="quote_order", args='{"plan": "sm'),))
    turn = await saga_env.start_turn("A small environment", model=script(garbled, BYE))
    result = await turn.result()

    told = [message.text for message in result.messages if isinstance(message, ToolMessage)]
    assert told == ['not run: the arguments are not valid JSON: not JSON: {"plan": "sm']
    assert result.text == "It is reserved."
