"""``@tool``: declares a tool, and refuses at import what could not be undone at three in the morning."""

import inspect
from collections.abc import Awaitable, Callable
from datetime import timedelta
from types import NoneType
from typing import Literal, TypeVar, get_args, get_type_hints, overload

from pydantic import BaseModel

from countermand.saga.errors import ToolDeclarationError
from countermand.saga.tool import Approval, OnFailure, Tool, declare
from countermand.saga.types import CallPolicy, Effect, ListedEffect, Money, Probed, ToolCall, Undone

ArgsT = TypeVar("ArgsT", bound=BaseModel)
ResultT = TypeVar("ResultT", bound=BaseModel)

Forward = Callable[[ToolCall, ArgsT], Awaitable[ResultT]]
Compensation = Callable[[ToolCall, ArgsT, ResultT | None], Awaitable[Undone]]
Probe = Callable[[ToolCall, ArgsT], Awaitable[Probed[ResultT]]]
Price = Callable[[ArgsT], Awaitable[Money]]
ListEffects = Callable[[], Awaitable[list[ListedEffect]]]


# Of a read there is nothing to infer the types from but the decorated function itself.
@overload
def tool(
    *,
    effect: Literal["read"],
    start_to_close: timedelta = ...,
    max_attempts: int | None = ...,
    on_failure: OnFailure | None = ...,
    approval: Approval = ...,
    parallel: bool = ...,
    after: tuple[str, ...] = ...,
    fenced: bool = ...,
    outside: bool = ...,
) -> Callable[[Forward[ArgsT, ResultT]], Tool[ArgsT, ResultT]]: ...


# One compensation for several tools is no reason to infer a tool's arguments from it.
@overload
def tool(
    *,
    effect: Literal["compensable"],
    compensate: Compensation[BaseModel, BaseModel],
    probe: Probe[BaseModel, ResultT],
    start_to_close: timedelta = ...,
    max_attempts: int | None = ...,
    on_failure: OnFailure | None = ...,
    approval: Approval = ...,
    parallel: bool = ...,
    after: tuple[str, ...] = ...,
    fenced: bool = ...,
    outside: bool = ...,
    list_effects: ListEffects | None = ...,
) -> Callable[[Forward[ArgsT, ResultT]], Tool[ArgsT, ResultT]]: ...


@overload
def tool(
    *,
    effect: Literal["read", "compensable", "irreversible"],
    compensate: Compensation[ArgsT, ResultT] | None = ...,
    probe: Probe[ArgsT, ResultT],
    start_to_close: timedelta = ...,
    max_attempts: int | None = ...,
    on_failure: OnFailure | None = ...,
    approval: Approval = ...,
    parallel: bool = ...,
    after: tuple[str, ...] = ...,
    fenced: bool = ...,
    price: Price[ArgsT] | None = ...,
    outside: bool = ...,
    list_effects: ListEffects | None = ...,
) -> Callable[[Forward[ArgsT, ResultT]], Tool[ArgsT, ResultT]]: ...


def tool(
    *,
    effect: Literal["read", "compensable", "irreversible"],
    compensate: Callable[..., Awaitable[Undone]] | None = None,
    probe: Callable[..., Awaitable[Probed[ResultT]]] | None = None,
    start_to_close: timedelta = timedelta(seconds=10),
    max_attempts: int | None = None,
    on_failure: OnFailure | None = None,
    approval: Approval = "irreversible",
    parallel: bool = False,
    after: tuple[str, ...] = (),
    fenced: bool = True,
    price: Price[ArgsT] | None = None,
    outside: bool = False,
    list_effects: ListEffects | None = None,
) -> Callable[[Forward[ArgsT, ResultT]], Tool[ArgsT, ResultT]]:
    """Declare an async function ``(call: ToolCall, args: Args) -> Result`` as a tool named after it.

    Args:
        effect: ``read``, ``compensable`` or ``irreversible``.
        compensate: ``async (call, args, result | None) -> Undone``; must undo by ``call.step_key`` when the result is
            None, and be a no-op where the call never happened. One that takes any ``BaseModel`` serves several tools.
        probe: ``async (call, args) -> Probed[Result]``; read-only.
        start_to_close: Longest time of one attempt.
        max_attempts: Attempts of the forward call; the saga's option if None.
        on_failure: What spent retries do: ``rollback`` (default for effects) or ``continue`` (default for reads).
        approval: When a person must agree first.
        parallel: Whether calls in one model message may run beside it.
        after: Names of tools whose calls in the same message must have ended before it runs.
        fenced: Whether the downstream refuses a late call after its undo.
        price: ``async (args) -> Money``; what the call costs. Read-only.
        outside: Whether its result carries text that others wrote (a mail, a DNS answer).
        list_effects: ``async () -> list[ListedEffect]``; what stands of this tool's effects, for ``reconcile``.

    Raises:
        ToolDeclarationError: Something that the undo needs is missing; the message says what.
    """

    def decorate(function: Forward[ArgsT, ResultT]) -> Tool[ArgsT, ResultT]:
        name = function.__name__
        args, result = _signature(name, function)
        if effect == "compensable" and compensate is None:
            raise ToolDeclarationError(
                f"tool {name!r} is compensable but has no compensation: "
                "pass compensate=<async function (call, args, result) -> Undone>"
            )
        if effect != "compensable" and compensate is not None:
            raise ToolDeclarationError(f"tool {name!r} is {effect}: it takes no compensation")
        if effect != "read" and probe is None:
            raise ToolDeclarationError(
                f"tool {name!r} has an effect but no probe: pass probe=<async function (call, args) -> Probed[...]>"
            )
        if compensate is not None:
            _check_compensation(name, compensate, args, result)
        declared = Tool(
            name=name,
            description=inspect.getdoc(function) or name,
            effect=Effect(effect),
            args=args,
            result=result,
            forward=function,
            undo=compensate,
            undo_name=compensate.__name__ if compensate else None,
            probe=probe,
            policy=CallPolicy(start_to_close=start_to_close, max_attempts=max_attempts),
            on_failure=on_failure or ("continue" if effect == "read" else "rollback"),
            approval=approval,
            parallel=parallel,
            after=after,
            fenced=fenced,
            price=price,
            outside=outside,
            list_effects=list_effects,
        )
        declare(declared)
        return declared

    return decorate


def _signature(name: str, function: Forward[ArgsT, ResultT]) -> tuple[type[ArgsT], type[ResultT]]:
    """The argument and result models that a forward function is annotated with."""
    if not inspect.iscoroutinefunction(function):
        raise ToolDeclarationError(f"tool {name!r} must be an async function")
    parameters = list(inspect.signature(function).parameters)
    hints = get_type_hints(function)
    if len(parameters) != 2 or hints.get(parameters[0]) is not ToolCall:  # noqa: PLR2004 - call and args
        raise ToolDeclarationError(f"tool {name!r} must take (call: ToolCall, args: <a pydantic model>)")
    args, result = hints.get(parameters[1]), hints.get("return")
    for what, model in (("its arguments", args), ("its result", result)):
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            raise ToolDeclarationError(f"tool {name!r}: {what} must be annotated with a pydantic model, not {model!r}")
    return args, result  # pyright: ignore[reportReturnType] - checked above, and by the decorator's own type


def _check_compensation(name: str, compensate: Callable[..., Awaitable[Undone]], args: type, result: type) -> None:
    """Refuse a compensation whose arguments cannot be made from the call and its result."""
    undo = compensate.__name__
    if not inspect.iscoroutinefunction(compensate):
        raise ToolDeclarationError(f"tool {name!r}: its compensation {undo!r} must be an async function")
    hints = get_type_hints(compensate)
    given = list(inspect.signature(compensate).parameters)
    if len(given) != 3:  # noqa: PLR2004 - call, args and result
        raise ToolDeclarationError(
            f"tool {name!r}: its compensation {undo!r} must take (call, args, result), it takes ({', '.join(given)})"
        )
    call_hint, args_hint, result_hint = (hints.get(parameter) for parameter in given)
    if call_hint is not ToolCall:
        raise ToolDeclarationError(f"tool {name!r}: {undo!r} must take a ToolCall first")
    if args_hint not in {args, BaseModel}:
        raise ToolDeclarationError(
            f"tool {name!r}: {undo!r} wants {given[1]}: {_show(args_hint)}, but the call was made with {args.__name__}"
        )
    if set(get_args(result_hint)) not in ({result, NoneType}, {BaseModel, NoneType}):
        raise ToolDeclarationError(
            f"tool {name!r}: {undo!r} wants {given[2]}: {_show(result_hint)}, but of a call whose outcome is unknown "
            f"there is no result: annotate it {result.__name__} | None, and undo by call.step_key when it is None"
        )


def _show(hint: object) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)


__all__ = ["tool"]
