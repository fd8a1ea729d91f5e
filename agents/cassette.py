"""Cassettes: a chat model's exchanges, recorded once as readable JSONL and replayed without the model.

A line is one exchange. What is left out of it never reaches the file: keys, headers, a provider's own metadata.
"""

import json
from difflib import unified_diff
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self, cast
from urllib.parse import parse_qsl

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from pydantic import ConfigDict, JsonValue, TypeAdapter, ValidationError
from temporalio.exceptions import ApplicationError
from typing_extensions import override

from countermand.agents.messages import as_json
from countermand.agents.minted import minted, renamed
from countermand.agents.offline import OfflineModel
from countermand.saga.errors import CountermandError
from countermand.saga.journal import safe_digest
from countermand.saga.types import Frozen, JsonObject

_KEPT = ("type", "content", "name", "tool_calls", "invalid_tool_calls", "tool_call_id", "status")
"""What of a message a model reads. The rest (ids, usage, a provider's metadata) is new with each run."""

_ANSWERED = ("type", "content", "tool_calls", "invalid_tool_calls", "usage_metadata")


class CassetteInvalid(CountermandError):
    """A cassette can't be used; the message names the file, the field and the reason."""


class CassetteMiss(ApplicationError):
    """Nothing recorded answers the request; shows how it differs from the nearest that is. Retrying changes nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(message, type="CassetteMiss", non_retryable=True)


class Mode(StrEnum):
    """When the model behind a cassette is asked: never, only to make a cassette that is not there yet, or always."""

    NONE = "none"
    ONCE = "once"
    ALL = "all"


class CassetteName(Frozen):
    """``PATH[?mode=none|once|all&model=provider:name]``; ``model`` is who is asked when something is recorded."""

    path: Path
    mode: Mode = Mode.NONE
    model: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a name.

        Raises:
            CassetteInvalid: A field is unknown or wrong, nobody is there to record, or nothing to replay.
        """
        path, _, query = text.partition("?")
        try:
            name = cls.model_validate({"path": path, **dict(parse_qsl(query))})
        except ValidationError as error:
            first = error.errors()[0]
            raise CassetteInvalid(f"cassette {path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        if name.mode is not Mode.NONE and name.model is None:
            raise CassetteInvalid(
                f"cassette {path}: model: mode={name.mode} records, so name whom: model=provider:name"
            )
        if name.mode is Mode.NONE and not name.path.is_file():
            raise CassetteInvalid(f"there is no cassette {path!r}: record it with ?mode=once&model=provider:name")
        return name


class Exchange(Frozen):
    """One request and its answer. ``tools`` are the digests of the offered tools' schemas by name."""

    digest: str
    messages: tuple[JsonObject, ...]
    tools: dict[str, str]
    answer: JsonObject


class Cassette:
    """The exchanges of one file.

    Args:
        path: The file; it need not be there.

    Raises:
        CassetteInvalid: A line is no exchange, or was edited without its digest.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._exchanges: dict[str, Exchange] = {}
        self._used: set[str] = set()
        lines = path.read_text("utf-8").splitlines() if path.is_file() else []
        for number, line in enumerate(lines, start=1):
            try:
                exchange = Exchange.model_validate_json(line)
            except ValidationError as error:
                raise CassetteInvalid(f"cassette {path}, line {number}: {error.errors()[0]['msg']}") from error
            if exchange.digest != _digest(exchange.messages, exchange.tools):
                raise CassetteInvalid(f"cassette {path}, line {number}: its request was changed: record it anew")
            self._exchanges[exchange.digest] = exchange

    def record(self, messages: tuple[JsonObject, ...], tools: dict[str, str], answer: AIMessage) -> None:
        """Add an exchange at the file's end."""
        exchange = Exchange(
            digest=_digest(messages, tools), messages=messages, tools=tools, answer=_only(_ANSWERED, answer)
        )
        self._exchanges[exchange.digest] = exchange
        self._used.add(exchange.digest)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(exchange.model_dump(mode="json"), ensure_ascii=False) + "\n")

    def replay(self, messages: tuple[JsonObject, ...], tools: dict[str, str]) -> AIMessage:
        """The answer to exactly this request.

        Raises:
            CassetteMiss: There is none.
        """
        exchange = self._exchanges.get(_digest(messages, tools))
        if exchange is None:
            raise CassetteMiss(self._miss(messages, tools))
        self._used.add(exchange.digest)
        today = {name: token for token, name in minted(messages).items()}
        answer = renamed(
            exchange.answer, {then: today[name] for then, name in minted(exchange.messages).items() if name in today}
        )
        return AIMessage.model_validate({"content": "", **_OBJECT.validate_python(answer)})

    def unused(self) -> list[Exchange]:
        """The stale entries: those that nobody asked for since the cassette was opened."""
        return [exchange for name, exchange in self._exchanges.items() if name not in self._used]

    def erase(self) -> None:
        """Record from the begin."""
        self._exchanges.clear()
        self.path.unlink(missing_ok=True)

    def _miss(self, messages: tuple[JsonObject, ...], tools: dict[str, str]) -> str:
        asked = _lines(messages, tools)
        recorded = [_lines(exchange.messages, exchange.tools) for exchange in self._exchanges.values()]
        if not recorded:
            return f"cassette {self.path} is empty: record it with ?mode=all&model=provider:name"
        diffs = [list(unified_diff(lines, asked, "recorded", "asked", lineterm="", n=1)) for lines in recorded]
        nearest = "\n".join(min(diffs, key=len))
        return (
            f"cassette {self.path} has no answer to this request; the nearest differs so:\n{nearest[:4000]}\n"
            "If that is meant, record it anew with ?mode=all&model=provider:name"
        )


@cache
def cassette_at(path: Path) -> Cassette:
    """The cassette of a file, one in a process, so that what was never asked for is known at the end."""
    return Cassette(path)


class CassetteModel(OfflineModel):
    """Answers from a cassette; where it records, asks the model behind it.

    Args:
        cassette: The exchanges.
        behind: Whom to ask and record; None replays only.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    cassette: Cassette
    behind: BaseChatModel | None = None
    disable_streaming: bool | Literal["tool_calling"] = True

    @override
    def answer(self, messages: list[BaseMessage], *, agent: str | None) -> AIMessage:
        model = self._model()
        return self._answered(messages, model.invoke(messages) if model else None)

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        model = self._model()
        answer = self._answered(messages, await model.ainvoke(messages) if model else None)
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def _model(self) -> Runnable[LanguageModelInput, AIMessage] | None:
        if self.behind is None or not self.offered:
            return self.behind
        return self.behind.bind_tools(list(self.offered))

    def _answered(self, messages: list[BaseMessage], answer: AIMessage | None) -> AIMessage:
        asked = tuple(_only(_KEPT, message) for message in messages)
        tools = {str(tool["function"]["name"]): safe_digest(tool) for tool in self.offered}
        if answer is None:
            return self.cassette.replay(asked, tools)
        self.cassette.record(asked, tools, answer)
        return answer


def _only(fields: tuple[str, ...], message: BaseMessage) -> JsonObject:
    whole = as_json([cast("AnyMessage", message)])[0]
    return {name: whole[name] for name in fields if whole.get(name) not in (None, [], "")}


def _digest(messages: tuple[JsonObject, ...], tools: dict[str, str]) -> str:
    """The canonical digest of a request: what is new with each run has the same name in all of them."""
    request: JsonValue = {"messages": renamed([*messages], minted(messages)), "tools": {**tools}}
    return safe_digest(request)


def _lines(messages: tuple[JsonObject, ...], tools: dict[str, str]) -> list[str]:
    """A request, a line a message's field, as a diff shows it best."""
    lines = [f"tool {name} ({schema[:16]})" for name, schema in sorted(tools.items())]
    names = minted(messages)
    for message in (_OBJECT.validate_python(renamed(message, names)) for message in messages):
        lines += [f"{message['type']}.{name}: {line}" for name, value in message.items() for line in _text(value)]
    return lines


def _text(value: JsonValue) -> list[str]:
    return value.splitlines() if isinstance(value, str) else [json.dumps(value, ensure_ascii=False, sort_keys=True)]


_OBJECT = TypeAdapter(JsonObject)
