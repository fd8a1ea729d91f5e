"""``think``: the one activity that asks a language model."""

import json
from datetime import timedelta
from functools import lru_cache
from typing import Annotated, cast

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessageChunk,
    HumanMessage,
    SystemMessage,
    message_chunk_to_message,
)
from langchain_core.messages import ToolCall as ModelCall
from langchain_core.runnables import Runnable
from pydantic import Field
from temporalio import activity, workflow
from temporalio.common import RetryPolicy

from countermand.agents.builtin import BUILTINS, Transfer, transfers
from countermand.agents.context import Contexts
from countermand.agents.conversation import bounded, instructions_of
from countermand.agents.feed import TEXT
from countermand.agents.messages import Message, WithoutDefaults, as_json
from countermand.agents.models import resolve_model
from countermand.agents.team import CONFIRMED, Agent, AgentName
from countermand.agents.turn_input import this_turn
from countermand.cache.feed import Feed
from countermand.cache.types import ContextRef
from countermand.saga.activities import HEARTBEAT_TIMEOUT, heartbeats
from countermand.saga.journal import safe_digest
from countermand.saga.tool import declared
from countermand.saga.types import Frozen, JsonObject

MAX_TEXT = 20_000
"""Characters of a model's text that are kept, a longer answer is cut and says so; and of a call's arguments."""

MAX_NAME = 128
"""Characters of a tool's name that are kept."""


class ThinkRequest(Frozen):
    """Which agent is asked, and the turn's messages since the customer's own; the turn started with all else."""

    agent: AgentName
    model: str
    delta: list[Message]


class Thought(Frozen):
    """The model's answer, and the digest of all that it read.

    ``malformed`` names the calls whose arguments were not even JSON, by call id.
    """

    message: Annotated[AIMessage, WithoutDefaults]
    prompt: str
    malformed: Annotated[dict[str, str], Field(default_factory=dict)]


class Thinker:
    """Holds what ``think`` needs of its worker.

    Args:
        contexts: Where conversations are read.
        feed: Where whoever watches a session sees the answer come; None shows nothing before it is whole.
    """

    def __init__(self, contexts: Contexts, feed: Feed | None = None) -> None:
        self._contexts = contexts
        self._feed = feed

    @activity.defn
    async def think(self, request: ThinkRequest) -> Thought:
        """Ask the model once; retries are Temporal's."""
        async with heartbeats():
            turn = await this_turn()
            agent, ref = turn.team.agent(request.agent), turn.context
            base: list[AnyMessage] = await self._contexts.read(ref) if ref else []
            model = _model(request.model).bind_tools(_schemas(agent, transfers(agent, turn.team)))
            instructions = instructions_of(agent, base) + (f"\n{CONFIRMED}\n" if turn.confirmed else "")
            earlier = [message for message in base if not isinstance(message, SystemMessage)]
            said: list[AnyMessage] = [HumanMessage(turn.text), *request.delta]
            prompt: list[AnyMessage] = [SystemMessage(instructions), *earlier, *said]
            answer = await self._ask(model, prompt, ref)
            thought = _normalised(answer, prompt=safe_digest([*as_json(prompt)]), turn_length=len(said))
            if ref is not None and not thought.message.tool_calls:
                await self._contexts.share_next(ref, bounded([*base, *said, thought.message]))
            return thought

    async def _ask(
        self, model: Runnable[LanguageModelInput, AIMessage], messages: list[AnyMessage], ref: ContextRef | None
    ) -> AIMessage:
        if self._feed is None or ref is None:
            return await model.ainvoke(messages)
        whole: BaseMessageChunk | None = None
        async for chunk in model.astream(messages):
            if chunk.text:
                await self._feed.append(ref.session, TEXT, {"saga": _saga_id(), "text": chunk.text})
            if not isinstance(chunk, AIMessageChunk):
                # A model that can't stream gives its whole answer at once.
                return chunk
            whole = chunk if whole is None else whole + chunk
        return cast("AIMessage", message_chunk_to_message(whole)) if whole is not None else AIMessage("")


async def think(request: ThinkRequest) -> Thought:
    """Ask the model, from workflow code. Raises ``ActivityError``."""
    return await workflow.execute_activity_method(
        Thinker.think,
        request,
        summary=f"{request.agent} thinks",
        start_to_close_timeout=timedelta(seconds=90),
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=RetryPolicy(maximum_attempts=3),
    )


def _saga_id() -> str:
    return activity.info().workflow_id or ""


@lru_cache(maxsize=8)
def _model(name: str) -> BaseChatModel:
    return resolve_model(name)


def _schemas(agent: Agent, transfers: dict[str, str]) -> list[JsonObject]:
    """What the model sees of its tools, in the form that all of langchain's providers take."""
    tools = {name: (tool.description, tool.args) for name, tool in declared().items() if name in agent.tools}
    tools |= {name: (args.__doc__ or name, args) for name, args in BUILTINS.items()}
    tools |= {name: (description, Transfer) for name, description in transfers.items()}
    return [
        {
            "type": "function",
            "function": {"name": name, "description": description, "parameters": args.model_json_schema()},
        }
        for name, (description, args) in tools.items()
    ]


def _normalised(message: AIMessage, *, prompt: str, turn_length: int) -> Thought:
    """A model's answer in one form: plain text, unique call ids, calls that were not even JSON kept and named."""
    malformed: dict[str, str] = {}
    calls: list[ModelCall] = []
    # The position in the turn makes an id unique in the conversation without anything random.
    given = [(call["name"], call["args"], call["id"], "") for call in message.tool_calls]
    given += [(call["name"] or "", {}, call["id"], call["error"] or "not JSON") for call in message.invalid_tool_calls]
    for number, (name, args, call_id, error) in enumerate(given, start=1):
        unique = call_id if call_id and call_id not in {call["id"] for call in calls} else f"c{turn_length}-{number}"
        too_long = len(json.dumps(args)) > MAX_TEXT
        calls.append(ModelCall(name=name[:MAX_NAME], args={} if too_long else args, id=unique, type="tool_call"))
        if too_long:
            malformed[unique] = f"longer than {MAX_TEXT:,} characters"
        elif error:
            malformed[unique] = error[:500]
    text = message.text
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT] + " … (cut: the answer was too long)"
    kept = AIMessage(content=text, tool_calls=calls, usage_metadata=message.usage_metadata)
    return Thought(message=kept, prompt=prompt, malformed=malformed)
