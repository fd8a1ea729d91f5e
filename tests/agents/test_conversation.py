import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolCall
from pydantic import BaseModel

from countermand.agents.conversation import MAX_CONVERSATION_BYTES, bounded, by_reference, instructions_of, opening
from countermand.agents.messages import MAX_ANSWER, Messages, answer, as_json, from_json
from countermand.agents.team import FOUR_AGENTS, REMINDER

LONG = "x" * (MAX_CONVERSATION_BYTES // 3)


def turn(name: str, text: str = LONG) -> list[AnyMessage]:
    """A turn in which the agent had to be reminded, which is a message to it but begins no turn."""
    return [HumanMessage(f"{name} {text}"), AIMessage("done"), HumanMessage(REMINDER), AIMessage(f"{name} is done")]


def test_a_short_conversation_stays_whole() -> None:
    context = [*opening(FOUR_AGENTS), *turn("first", "short"), *turn("second", "short")]

    assert bounded(context) == context


def test_the_oldest_whole_turns_go_first_and_the_instructions_stay() -> None:
    told = opening(FOUR_AGENTS)

    kept = bounded([*told, *turn("first"), *turn("second"), *turn("third"), *turn("fourth")])

    assert kept == [*told, *turn("third"), *turn("fourth")]
    assert len(Messages.dump_json(kept[len(told) :])) <= MAX_CONVERSATION_BYTES
    assert bounded(kept) == kept


def test_the_last_turn_stays_however_long_it_is() -> None:
    assert bounded([*turn("first"), *turn("last", 4 * LONG)]) == turn("last", 4 * LONG)


class Inbox(BaseModel):
    """What a tool may answer with."""

    mails: list[str]


@pytest.mark.parametrize("mails", [["short", "ж" * 90_000], ["x" * 9_000] * 10], ids=["one is long", "all are"])
def test_an_answer_that_is_too_long_is_told_as_far_as_it_fits(mails: list[str]) -> None:
    call = ToolCall(name="read_mail", args={}, id="1")

    told = answer(call, Inbox(mails=mails)).text

    assert len(told) <= MAX_ANSWER
    for whole, kept in zip(mails, Inbox.model_validate_json(told).mails, strict=True):
        beginning, _, note = kept.partition(" ... ")
        assert whole.startswith(beginning)
        assert note == ("" if beginning == whole else f"(cut: it had {len(whole):,} characters)")


def test_instructions_by_reference_are_found_in_the_context() -> None:
    context = opening(FOUR_AGENTS)

    referring = by_reference(FOUR_AGENTS).agents

    assert all(agent.instructions.startswith("sha256:") for agent in referring)
    assert [instructions_of(agent, context) for agent in referring] == [one.instructions for one in FOUR_AGENTS.agents]


def test_a_team_that_carries_its_instructions_needs_no_context() -> None:
    assert instructions_of(FOUR_AGENTS.entry, []) == FOUR_AGENTS.entry.instructions


def test_a_message_is_kept_without_what_it_has_by_default_and_read_back_equal() -> None:
    call = ToolCall(name="commit", args={}, id="c1", type="tool_call")
    messages: list[AnyMessage] = [SystemMessage("be brief"), HumanMessage("hello"), AIMessage("", tool_calls=[call])]

    kept = as_json(messages)

    assert kept[1] == {"type": "human", "content": "hello"}
    assert kept[2] == {"type": "ai", "content": "", "tool_calls": [call]}
    assert from_json(kept) == messages
