"""Tools that exist already as steps of a saga: langchain's, and an MCP server's.

What ``@tool`` asks of a tool of one's own is asked of these too, at registration. Arguments of the compensation are
made by name: from the call's arguments, from fields of its answer, and from the idempotency keys.

Of a call whose outcome is unknown there is no answer. So a compensation must do with the call's arguments and the
keys, or a probe must find the answer; a tool with neither is refused. Without a probe, and without a place for a key, a
forward call is made once and never repeated: nobody could tell a second charge from the first.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal, TypeAlias, TypeVar

from jsonschema import Draft202012Validator  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
from pydantic import AfterValidator, BaseModel, ConfigDict, RootModel, TypeAdapter, WithJsonSchema

from countermand.saga.errors import ToolDeclarationError, ToolRefused, ToolUnavailable
from countermand.saga.tool import Tool, declare
from countermand.saga.types import CallPolicy, Effect, JsonObject, ProbeAnswer, Probed, ToolCall, Undone

KEY, ORIGINAL_KEY = "idempotency_key", "original_key"
"""Fields that are filled with the call's own key, and with the key of the call that a compensation undoes."""

Args: TypeAlias = RootModel[JsonObject]
ResultT = TypeVar("ResultT", bound=BaseModel)
EffectName = Literal["read", "compensable", "irreversible"]


class Answer(BaseModel):
    """What an existing tool answered: the fields of an object, or anything else as ``result``."""

    model_config = ConfigDict(frozen=True, extra="allow")


class SaidNo(Exception):
    """An existing tool answered with an error: the call has ended."""


@dataclass(frozen=True)
class Existing:
    """A tool that somebody else wrote.

    Attributes:
        origin: Where it is from; two tools of one name and different origins are two tools.
        name: Its name.
        description: What the model reads.
        schema: JSON schema of its arguments.
        call: Calls it. Raises ``SaidNo``, or anything else where no answer came.
    """

    origin: str
    name: str
    description: str
    schema: JsonObject
    call: Callable[[JsonObject], Awaitable[JsonObject]]

    @property
    def fields(self) -> JsonObject:
        """Its arguments' own schemas, by name."""
        return _OBJECT.validate_python(self.schema.get("properties", {}))

    @property
    def required(self) -> set[str]:
        """Names of the arguments that it can't do without."""
        return set(_NAMES.validate_python(self.schema.get("required", [])))

    @property
    def defaults(self) -> JsonObject:
        """What its arguments are when they are left out."""
        schemas = {name: _OBJECT.validate_python(schema) for name, schema in self.fields.items()}
        return {name: schema["default"] for name, schema in schemas.items() if "default" in schema}


_OBJECT: TypeAdapter[JsonObject] = TypeAdapter(JsonObject)
_NAMES = TypeAdapter(list[str])

Probe = Callable[[ToolCall, JsonObject], Awaitable[Probed[ResultT]]]


def adapt(
    forward: Existing,
    compensation: Existing | None,
    result: type[ResultT],
    *,
    answers: set[str],
    effect: EffectName,
    probe: Probe[ResultT] | None,
    start_to_close: timedelta,
    fenced: bool,
) -> Tool[Args, ResultT]:
    """Declare an existing tool.

    Args:
        forward: The tool.
        compensation: What undoes it.
        result: The model of its answer.
        answers: Fields that its answer certainly has.
        effect: ``read``, ``compensable`` or ``irreversible``.
        probe: ``async (call, args) -> Probed``; see the module.
        start_to_close: Longest time of one attempt.
        fenced: Whether the downstream refuses a late call after its undo.

    Raises:
        ToolDeclarationError: It could not be undone; the message names what is missing.
    """
    _check(forward, compensation, answers=answers, effect=effect, probed=probe is not None)
    repeatable = effect == "read" or probe is not None or KEY in forward.fields
    made = Tool(
        name=forward.name,
        description=forward.description,
        effect=Effect(effect),
        args=_args_model(forward),
        result=result,
        forward=_forward(forward, result, effect, probe),
        undo=_undo(forward, compensation, probe) if compensation else None,
        # The same compensation of another tool takes other arguments: it is another activity.
        undo_name=f"{forward.name}.{compensation.name}" if compensation else None,
        probe=None if effect == "read" else _probe(probe),
        policy=CallPolicy(start_to_close=start_to_close, max_attempts=None if repeatable else 1),
        on_failure="continue" if effect == "read" else "rollback",
        fenced=fenced,
        # What somebody else's tool finds may be anybody's text.
        outside=effect == "read",
    )
    declare(made)
    return made


def _check(
    forward: Existing, compensation: Existing | None, *, answers: set[str], effect: EffectName, probed: bool
) -> None:
    name = f"tool {forward.name!r}"
    if effect == "compensable" and compensation is None:
        raise ToolDeclarationError(
            f"{name} is compensable but has no compensation: pass compensate=<the tool that undoes it>, "
            'or effect="read" if it has no effect'
        )
    if effect != "compensable" and compensation is not None:
        raise ToolDeclarationError(f"{name} is {effect}: it takes no compensation")
    if effect == "irreversible" and not probed:
        raise ToolDeclarationError(
            f"{name} is irreversible but has no probe: pass probe=<async (call, args) -> Probed>"
        )
    if compensation is None:
        return
    known = {KEY, ORIGINAL_KEY, *forward.required, *forward.defaults}
    undo = f"its compensation {compensation.name!r}"
    if missing := compensation.required - known - answers:
        raise ToolDeclarationError(
            f"{name}: {undo} needs {_quoted(missing)}, which is neither an argument of the call that is always given "
            "nor a field of its answer"
        )
    if (missing := compensation.required - known) and not probed:
        raise ToolDeclarationError(
            f"{name}: {undo} needs {_quoted(missing)} from the answer, but of a call whose outcome is unknown there is "
            f"none: pass probe=<async (call, args) -> Probed>, or let it take {ORIGINAL_KEY!r}"
        )


def _quoted(names: set[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))


def _args_model(tool: Existing) -> type[Args]:
    """What the model may give: the tool's own schema without the keys, which no model ever mints."""
    hidden = {KEY, ORIGINAL_KEY}
    shown: JsonObject = {
        **tool.schema,
        "properties": {name: schema for name, schema in tool.fields.items() if name not in hidden},
        "required": [*sorted(tool.required - hidden)],
        "additionalProperties": False,
    }
    validator = Draft202012Validator(shown)

    def check(value: JsonObject) -> JsonObject:
        if errors := list(validator.iter_errors(value)):
            wrong = (f"{'.'.join(map(str, one.absolute_path)) or 'arguments'}: {one.message}" for one in errors)
            raise ValueError("; ".join(wrong))
        return value

    return RootModel[Annotated[JsonObject, AfterValidator(check), WithJsonSchema(shown)]]


def _forward(
    tool: Existing, result: type[ResultT], effect: EffectName, probe: Probe[ResultT] | None
) -> Callable[[ToolCall, Args], Awaitable[ResultT]]:
    async def forward(call: ToolCall, args: Args) -> ResultT:
        given = args.root | ({KEY: call.key} if KEY in tool.fields else {})
        try:
            return result.model_validate(await _called(tool, given))
        except SaidNo as no:
            if effect == "read":
                raise ToolRefused(str(no)) from no
            # An error says nothing of the effect; only the downstream's own books do.
            probed = await probe(call, args.root) if probe else None
            if probed is not None and probed.answer is ProbeAnswer.NOT_LANDED:
                raise ToolRefused(str(no)) from no
            raise ToolUnavailable(f"{no}; whether it had its effect is not known") from no

    forward.__qualname__ = f"{tool.origin}#{tool.name}"
    return forward


def _undo(
    tool: Existing, compensation: Existing, probe: Probe[ResultT] | None
) -> Callable[[ToolCall, Args, ResultT | None], Awaitable[Undone]]:
    async def undo(call: ToolCall, args: Args, result: ResultT | None) -> Undone:
        if result is None and probe is not None:
            probed = await probe(call, args.root)
            if probed.answer is ProbeAnswer.NOT_LANDED:
                return Undone(effective=False, detail="it never landed")
            result = probed.result
        known = tool.defaults | args.root | (result.model_dump(mode="json") if result else {})
        known |= {KEY: call.key, ORIGINAL_KEY: call.step_key}
        if missing := compensation.required - known.keys():
            raise ToolUnavailable(f"{compensation.name} needs {_quoted(missing)}, and the probe can't tell it now")
        given = {name: known[name] for name in compensation.fields if name in known}
        try:
            answer = await _called(compensation, given)
        except SaidNo as no:
            raise ToolUnavailable(f"{compensation.name}: {no}") from no
        return Undone(effective=answer.get("effective") is not False)

    undo.__qualname__ = f"{tool.origin}#{tool.name}.{compensation.name}"
    return undo


def _probe(probe: Probe[ResultT] | None) -> Callable[[ToolCall, Args], Awaitable[Probed[ResultT]]]:
    async def ask(call: ToolCall, args: Args) -> Probed[ResultT]:
        return await probe(call, args.root) if probe else Probed(ProbeAnswer.UNKNOWN)

    return ask


async def _called(tool: Existing, args: JsonObject) -> JsonObject:
    try:
        return await tool.call(args)
    except SaidNo:
        raise
    except Exception as error:
        # Somebody else's code: whatever it raises, no answer came.
        raise ToolUnavailable(f"{tool.name}: no answer ({type(error).__name__}: {error})") from error
