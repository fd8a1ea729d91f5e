"""The one client of the providers: it sends keys, and says by the error's type what an answer means.

::

    2xx that parses                                   done
    4xx, and the probe says "not landed"              Refused: certainly no effect
    429, 503, a key that is still in use              ToolUnavailable, with the pause that was asked for
    other 5xx, no answer, an answer that won't parse,
    a 4xx that the probe does not confirm             ToolUnavailable: it may have had its effect
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from http import HTTPStatus
from typing import TypeVar

import httpx2
from pydantic import BaseModel, ValidationError

from countermand.saga.errors import ToolRefused, ToolUnavailable
from countermand.saga.types import ProbeAnswer, Probed, ToolCall, Undone
from countermand.tools.world.errors import ErrorBody, ErrorDetail
from countermand.tools.world.models import common

AnswerT = TypeVar("AnswerT", bound=BaseModel)
ResultT = TypeVar("ResultT", bound=BaseModel)
ItemT = TypeVar("ItemT", bound=BaseModel)

ANSWER_WITHIN = timedelta(seconds=5)
"""How long a provider may take to answer; less than a tool's start-to-close, so that the tool can still say so."""

MAX_PAUSE = timedelta(minutes=1)
"""What a provider that asks for a pause is waited for at most: nothing interrupts an undo that waits."""

_IN_USE_PAUSE = timedelta(seconds=3)
"""The pause before a key that is in use is tried again; the provider names none.

An undo's five attempts so outlast a call that its own caller would have waited for.
"""

_worlds: list[httpx2.AsyncClient] = []
"""The providers in use, the last one is called; of the whole process, since activities run in tasks of their own."""


class Refused(ToolRefused):
    """A provider said no; ``code`` is its word for why."""

    def __init__(self, error: ErrorDetail) -> None:
        super().__init__(error.message.removesuffix("."))
        self.code = error.code


@asynccontextmanager
async def providers_at(url: str) -> AsyncGenerator[None]:
    """Let this process's tools call the providers at a base URL; run the worker inside."""
    async with httpx2.AsyncClient(base_url=url, timeout=ANSWER_WITHIN.total_seconds()) as http:
        _worlds.append(http)
        try:
            yield
        finally:
            _worlds.remove(http)


async def read(operation: str, answer: type[AnswerT], **query: str) -> AnswerT:
    """Ask a provider something."""
    return _parsed(operation, await _send(operation, "GET", params=query), answer)


async def read_all(operation: str, page: type[common.Page[ItemT]]) -> list[ItemT]:
    """Everything that a provider lists, page after page."""
    found: list[ItemT] = []
    query = {"limit": "100"}
    while True:
        answer = await read(operation, page, **query)
        found += answer.data
        if answer.next is None:
            return found
        query["after"] = answer.next


async def ask(operation: str, answer: type[AnswerT], body: BaseModel) -> AnswerT:
    """Ask a provider something that takes a body; it has no effect."""
    return _parsed(operation, await _send(operation, "POST", body=body), answer)


async def act(operation: str, answer: type[AnswerT], body: BaseModel, *, key: str) -> AnswerT:
    """Call an operation that has an effect.

    Raises:
        Refused: It certainly had none. The provider's own books confirm it: an error on the way could look the same.
        ToolUnavailable: It may have had one.
    """
    try:
        return _parsed(operation, await _send(operation, "POST", body=body, key=key), answer)
    except Refused as refused:
        try:
            probed = await _probe(operation, key)
        except Refused as unasked:
            raise ToolUnavailable(f"{operation}: refused ({refused}), and it can't be asked: {unasked}") from None
        if probed.status == "not_landed":
            raise
        raise ToolUnavailable(f"{operation}: refused ({refused}), but it may have landed") from None


async def undo(operation: str, call: ToolCall, answer: type[AnswerT], *, key: str | None = None) -> AnswerT:
    """Undo a step's forward call, named by its key; a no-op if it never landed, and it can't land any more.

    Raises:
        Refused: The provider will not undo it.
        ToolUnavailable: It may have been undone; the same undo can be sent again.
    """
    body = common.Undo(original_key=call.step_key)
    return _parsed(operation, await _send(operation, "POST", body=body, key=key or call.key), answer)


def undone(what: common.Undone[AnswerT], detail: str = "") -> Undone:
    """A provider's answer to an undo, as the saga understands it."""
    return Undone(effective=what.outcome == "done", detail=detail)


async def probe(
    operation: str, call: ToolCall, answer: type[AnswerT], result: Callable[[AnswerT], ResultT]
) -> Probed[ResultT]:
    """Ask whether a step's forward call landed; ``result`` makes the tool's result of the provider's answer."""
    probed = await _probe(operation, call.step_key)
    if probed.status == "landed":
        return Probed(ProbeAnswer.LANDED, result(answer.model_validate(probed.result)))
    return Probed(ProbeAnswer(probed.status))


async def _probe(operation: str, key: str) -> common.Probed:
    return await read(f"{operation.partition('.')[0]}.probe", common.Probed, key=key)


async def _send(
    operation: str,
    method: str,
    *,
    params: dict[str, str] | None = None,
    body: BaseModel | None = None,
    key: str | None = None,
) -> httpx2.Response:
    if not _worlds:
        raise ToolRefused(
            f"{operation}: no providers: run the worker inside countermand.tools.client.providers_at(url)"
        )
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Idempotency-Key"] = key
    content = None if body is None else body.model_dump_json()
    path = f"/{operation.replace('.', '/')}"
    try:
        return await _worlds[-1].request(method, path, params=params, content=content, headers=headers)
    except httpx2.TransportError as error:
        raise ToolUnavailable(f"{operation}: no answer ({type(error).__name__}: {error})") from error


def _parsed(operation: str, response: httpx2.Response, answer: type[AnswerT]) -> AnswerT:
    if response.is_success:
        try:
            return answer.model_validate_json(response.content)
        except ValidationError as error:
            raise ToolUnavailable(f"{operation}: an answer that can't be understood") from error
    try:
        detail = ErrorBody.model_validate_json(response.content).error
    except ValidationError:
        detail = ErrorDetail(type="api_error", code="unknown", message=f"HTTP {response.status_code}")
    if detail.code == "idempotency_key_in_use":
        raise ToolUnavailable(f"{operation}: the call is still under way", retry_after=_IN_USE_PAUSE)
    busy = response.status_code == HTTPStatus.TOO_MANY_REQUESTS
    # A key that was used with other arguments may have had its effect with those.
    if response.is_server_error or busy or detail.code == "idempotency_key_reused":
        message = f"{operation}: {detail.message.removesuffix('.')}"
        raise ToolUnavailable(message, retry_after=_retry_after(response))
    raise Refused(detail)


def _retry_after(response: httpx2.Response) -> timedelta | None:
    """The pause that the provider asked for, in whole seconds, up to a bound. Source: RFC 9110, section 10.2.3."""
    seconds = response.headers.get("Retry-After", "")
    return min(timedelta(seconds=int(seconds[:9])), MAX_PAUSE) if seconds.isdecimal() else None
