"""What a tool keeps for the rest of the conversation: facts, versioned updates of the call's session."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter
from temporalio import activity
from temporalio.client import WorkflowUpdateFailedError

from countermand.cache.context import ContextCache
from countermand.cache.types import Fact, FactConflict, Facts, PutFact
from countermand.saga.errors import ToolRefused
from countermand.saga.types import ToolCall

ValueT = TypeVar("ValueT", bound=BaseModel)

_Answer: TypeAdapter[Fact | FactConflict] = TypeAdapter(Fact | FactConflict)

_caches: list[ContextCache] = []
"""Where facts are shared, the last one is used; of the whole process, since activities run in tasks of their own."""


@contextmanager
def facts_shared_by(cache: ContextCache) -> Generator[None]:
    """Share what this process's tools store; run the worker inside. Without it, readers ask the session each time."""
    _caches.append(cache)
    try:
        yield
    finally:
        _caches.remove(cache)


async def get_fact(call: ToolCall, name: str, model: type[ValueT]) -> ValueT | None:
    """A fact of the call's session, or None; asked of the session itself, since an effect may depend on it.

    Raises:
        ToolRefused: The call belongs to no session.
    """
    fact = _named(await _facts(call), name)
    return None if fact is None else model.model_validate(fact.value)


async def put_fact(call: ToolCall, name: str, value: BaseModel) -> None:
    """Store a fact for the call's session, in place of the one that is there; storing the same again changes nothing.

    Raises:
        ToolRefused: The call belongs to no session, or the session does not take the fact.
    """
    wanted = value.model_dump(mode="json")
    while True:
        facts = await _facts(call)
        known = _named(facts, name)
        if known is not None and known.value == wanted:
            break
        put = PutFact(name=name, value=wanted, expected_version=known.version if known else 0)
        try:
            stored = await activity.client().get_workflow_handle(facts.session).execute_update("put_fact", put)
        except WorkflowUpdateFailedError as error:
            raise ToolRefused(str(error.cause)) from error
        if isinstance(_Answer.validate_python(stored), Fact):
            break
    if _caches and _caches[-1].tenant == facts.tenant:
        await _caches[-1].put_facts(await _facts(call))


async def _facts(call: ToolCall) -> Facts:
    if call.session is None:
        raise ToolRefused("facts are a session's, and this call belongs to none")
    return await activity.client().get_workflow_handle(call.session).query("facts", result_type=Facts)


def _named(facts: Facts, name: str) -> Fact | None:
    return next((fact for fact in facts.facts if fact.name == name), None)
