"""A tool as the executor sees it: a forward function, and the declaration of how it is undone."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import CodeType, MappingProxyType
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from pydantic import BaseModel

from countermand.saga.errors import ToolDeclarationError
from countermand.saga.sensitive import secret_field
from countermand.saga.types import CallPolicy, Effect, ListedEffect, Money, Probed, ToolCall, Undone

ArgsT = TypeVar("ArgsT", bound=BaseModel)
ResultT = TypeVar("ResultT", bound=BaseModel)

Approval = Literal["never", "always", "irreversible"]
OnFailure = Literal["rollback", "continue"]

FORWARD_POLICY = CallPolicy()
UNDO_POLICY = CallPolicy(max_attempts=5, initial_interval=timedelta(seconds=0.5))
"""Patient for 7.5 seconds: what an undo leaves needs a person, and a provider that restarts is back by then."""
PROBE_POLICY = CallPolicy(max_attempts=3)


@dataclass(frozen=True, kw_only=True)
class Tool(Generic[ArgsT, ResultT]):
    """A named operation that an agent may call; made by the ``@tool`` decorator, which checks it.

    Attributes:
        name: What agents call it; also the Temporal activity's type.
        description: What the model reads.
        effect: ``read``, ``compensable`` or ``irreversible``.
        args: The arguments' model, the tool's schema for the LLM.
        result: The result's model.
        forward: Does it. Raises ``ToolRefused`` or ``ToolUnavailable``.
        undo: Undoes it, given what is known of the call (the result is None when the outcome is unknown); a no-op on
            "never happened". Its name is the Temporal activity's type of the undo.
        undo_name: The compensation's own name.
        probe: Asks whether the call landed; read-only.
        policy: Time-out and retries of the forward call.
        on_failure: Whether spent retries fail the saga or go back to the model as an error.
        approval: When a person must agree first.
        parallel: Whether calls in one model message may run beside it.
        after: Names of tools whose calls in the same message must have ended before it runs.
        fenced: Whether the downstream refuses a late forward call after its undo (a tombstone); where it does not,
            the executor waits out ``start_to_close`` before it trusts "not landed".
        price: What a call costs, by its arguments; read-only. Limits and approvals by amount need it.
        outside: Whether the result carries text that others wrote, which must not give orders to an agent.
        list_effects: Lists what stands at the provider of this tool's effects, for ``reconcile``.
    """

    name: str
    description: str
    effect: Effect
    args: type[ArgsT]
    result: type[ResultT]
    forward: Callable[[ToolCall, ArgsT], Awaitable[ResultT]] = field(repr=False)
    undo: Callable[[ToolCall, ArgsT, ResultT | None], Awaitable[Undone]] | None = field(default=None, repr=False)
    undo_name: str | None = None
    probe: Callable[[ToolCall, ArgsT], Awaitable[Probed[ResultT]]] | None = field(default=None, repr=False)
    policy: CallPolicy = FORWARD_POLICY
    undo_policy: CallPolicy = UNDO_POLICY
    on_failure: OnFailure = "rollback"
    approval: Approval = "irreversible"
    parallel: bool = False
    after: tuple[str, ...] = ()
    fenced: bool = True
    price: Callable[[ArgsT], Awaitable[Money]] | None = field(default=None, repr=False)
    outside: bool = False
    list_effects: Callable[[], Awaitable[list[ListedEffect]]] | None = field(default=None, repr=False)


# A table of tools holds many argument types at once; Python has no existential types to say so.
AnyTool: TypeAlias = Tool[Any, Any]

_declared: dict[str, AnyTool] = {}


def declare(tool: AnyTool) -> None:
    """Make a tool known in this process, so that workflows find it by its name.

    Raises:
        ToolDeclarationError: Another tool has the name, its undo's name means something else elsewhere, or a secret
            would travel with a call.
    """
    for what, model in (("argument", tool.args), ("result", tool.result)):
        if field := secret_field(model):
            raise ToolDeclarationError(
                f"tool {tool.name!r}: its {what} {field!r} is a secret, and calls are kept in history: "
                "pass a reference, and read the secret from your vault or environment in the tool"
            )
    for other in _declared.values():
        if other.name == tool.name and _origin(other.forward) != _origin(tool.forward):
            raise ToolDeclarationError(f"tool {tool.name!r} is declared twice: give one of them another name")
        if tool.undo and other.undo_name == tool.undo_name and _origin(other.undo) != _origin(tool.undo):
            raise ToolDeclarationError(
                f"tool {tool.name!r}: its compensation {tool.undo_name!r} is also the name of another "
                f"compensation, that of {other.name!r}: rename one"
            )
    # Temporal's sandbox imports a workflow's module again: the first declaration, the worker's, is kept.
    _declared.setdefault(tool.name, tool)


def _origin(function: object) -> tuple[str, str]:
    """Where a function was written; equal for the copies that the sandbox makes.

    By its file and not its module: the sandbox calls a program's ``__main__`` otherwise.
    """
    code: CodeType | None = getattr(function, "__code__", None)
    return code.co_filename if code else "", getattr(function, "__qualname__", "")


def declared() -> Mapping[str, AnyTool]:
    """All tools declared in this process, by name."""
    return MappingProxyType(_declared)
