"""The scripted model: answers what its script says, and stops where run and script part ways.

A script is a YAML list of steps, one a model call::

    - expect: {said: a medium environment, offered: [quote_order]}
      calls:
        - {tool: quote_order, args: {plan: medium, region: eu-west, email: ada@example.com, hostname: ada.example.dev}}
    - expect: {last_tool: quote_order, agent: order}
      calls:
        - {tool: reserve_stock, args: {quote_id: "{{quote_order.quote_id}}"}}
    - say: It is reserved.

``{{tool.field}}`` is a field of the last result of that tool in the conversation, ``{{tool[0].field}}`` of its first.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import yaml
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, InvalidToolCall, ToolMessage
from langchain_core.messages import ToolCall as ModelCall
from pydantic import Field, JsonValue, TypeAdapter, ValidationError, model_validator
from temporalio.exceptions import ApplicationError
from typing_extensions import override

from countermand.agents.offline import OfflineModel
from countermand.saga.errors import CountermandError
from countermand.saga.types import Frozen, JsonObject

_REFERENCE = re.compile(r"\{\{\s*(\w+)(?:\[(\d+)\])?((?:\.\w+)+)\s*\}\}")


class ScriptInvalid(CountermandError):
    """A script can't be read; the message names the step, the field and the reason."""


class ScriptMismatch(ApplicationError):
    """Script and run part ways; says at which step, what was expected and what came. Asking again changes nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(message, type="ScriptMismatch", non_retryable=True)


class Expect(Frozen):
    """What the model must have before it when it is asked.

    ``said``: the last human message contains it, upper and lower case alike. ``last_tool``: the last message is that
    tool's answer. ``offered``: the agent holds these tools. ``agent``: it is this agent of the team that asks.
    """

    said: str | None = None
    last_tool: str | None = None
    offered: tuple[str, ...] = ()
    agent: str | None = None


class ScriptCall(Frozen):
    """A call whose arguments may refer to earlier results."""

    tool: str
    args: JsonObject = Field(default_factory=dict)
    id: str | None = Field(default=None, description="Its own if None.")


class RawCall(Frozen):
    """A call whose arguments are sent as they are written, JSON or not."""

    tool: str
    args: str


class ScriptStep(Frozen):
    """One answer of the model."""

    expect: Expect = Expect()
    say: str = ""
    calls: tuple[ScriptCall, ...] = ()
    raw_calls: tuple[RawCall, ...] = ()

    @model_validator(mode="after")
    def _answers(self) -> Self:
        if not (self.say or self.calls or self.raw_calls):
            raise ValueError("a step must say something or call something: give it say, calls or raw_calls")
        return self


_STEPS = TypeAdapter(tuple[ScriptStep, ...])


def load_script(path: Path) -> tuple[ScriptStep, ...]:
    """The steps of a script.

    Raises:
        ScriptInvalid: It is no YAML, or no list of steps.
    """
    try:
        return _STEPS.validate_python(yaml.safe_load(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ScriptInvalid(f"script {path}: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors()[0]
        no, *field = first["loc"] or (None,)
        where = f"step {no + 1}" + "".join(f".{part}" for part in field) if isinstance(no, int) else "the whole"
        raise ScriptInvalid(f"script {path}: {where}: {first['msg']}") from error


class ScriptedModel(OfflineModel):
    """Answers by a script; which step is next follows from the conversation, so that a retry gets the same answer.

    Args:
        steps: The script.
        source: What to call it in errors.
    """

    steps: tuple[ScriptStep, ...]
    source: str = "the script"

    @override
    def answer(self, messages: list[BaseMessage], *, agent: str | None) -> AIMessage:
        no = sum(_is_answer(message) for message in messages) + 1
        place = f"{self.source}, step {no}"
        if no > len(self.steps):
            raise ScriptMismatch(
                f"{place}: expected no more model calls, the script has {len(self.steps)} steps; got {_shown(messages)}"
            )
        step = self.steps[no - 1]
        self._check(place, step.expect, messages, agent)
        calls = [
            ModelCall(
                name=call.tool,
                args=_filled_object(place, call.args, messages),
                id=call.id or f"script-{no}-{n}",
                type="tool_call",
            )
            for n, call in enumerate(step.calls, start=1)
        ]
        raw = [
            InvalidToolCall(
                name=call.tool,
                args=call.args,
                id=f"script-{no}-raw-{n}",
                error=f"not JSON: {call.args}",
                type="invalid_tool_call",
            )
            for n, call in enumerate(step.raw_calls, start=1)
        ]
        return AIMessage(content=step.say, tool_calls=calls, invalid_tool_calls=raw)

    def _check(self, place: str, expect: Expect, messages: list[BaseMessage], agent: str | None) -> None:
        if expect.agent is not None and expect.agent != agent:
            raise ScriptMismatch(f"{place}: expected to be asked by {expect.agent}, was by {agent or 'nobody known'}")
        said = next((message.text for message in reversed(messages) if isinstance(message, HumanMessage)), "")
        if expect.said is not None and expect.said.casefold() not in said.casefold():
            raise ScriptMismatch(f"{place}: expected the user to say {expect.said!r}, got {said[:200]!r}")
        last = messages[-1] if messages else None
        if expect.last_tool is not None and not (isinstance(last, ToolMessage) and last.name == expect.last_tool):
            raise ScriptMismatch(f"{place}: expected an answer of {expect.last_tool}, got {_shown(messages)}")
        offered = [str(tool["function"]["name"]) for tool in self.offered]
        if missing := set(expect.offered) - set(offered):
            wanted, got = ", ".join(sorted(missing)), ", ".join(offered) or "none"
            raise ScriptMismatch(f"{place}: expected the tools {wanted} to be offered, got {got}")


def _is_answer(message: BaseMessage) -> bool:
    """Whether a message is the model's own; of a rollback the saga tells, in the model's place."""
    return isinstance(message, AIMessage) and not (message.text.startswith("Rolled back") and not message.tool_calls)


def _shown(messages: Sequence[BaseMessage]) -> str:
    if not messages:
        return "an empty conversation"
    last = messages[-1]
    who = f"an answer of {last.name}" if isinstance(last, ToolMessage) else f"a message of type {last.type}"
    return f"{who}: {last.text[:200]!r}"


def _filled_object(place: str, args: JsonObject, messages: Sequence[BaseMessage]) -> JsonObject:
    return {name: _filled(place, value, messages) for name, value in args.items()}


def _filled(place: str, value: JsonValue, messages: Sequence[BaseMessage]) -> JsonValue:
    """A value with its references replaced; one that is nothing but a reference keeps the type of what it names."""
    match value:
        case dict():
            return _filled_object(place, value, messages)
        case list():
            return [_filled(place, item, messages) for item in value]
        case str():
            if (whole := _REFERENCE.fullmatch(value)) is not None:
                return _referred(place, whole, messages)
            return _REFERENCE.sub(lambda found: str(_referred(place, found, messages)), value)
        case _:
            return value


def _referred(place: str, reference: re.Match[str], messages: Sequence[BaseMessage]) -> JsonValue:
    tool, index, path = reference.groups()
    results = [
        message.text
        for message in messages
        if isinstance(message, ToolMessage) and message.name == tool and message.status != "error"
    ]
    at = int(index) if index else len(results) - 1
    if not 0 <= at < len(results):
        raise ScriptMismatch(f"{place}: expected a result for {reference[0]}, got {len(results)} results of {tool}")
    value: JsonValue = json.loads(results[at])
    for name in path.removeprefix(".").split("."):
        if not isinstance(value, dict) or name not in value:
            raise ScriptMismatch(f"{place}: expected {name!r} for {reference[0]}, got {results[at][:200]}")
        value = value[name]
    return value
