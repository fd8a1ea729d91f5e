"""``think``: the one activity that asks a language model."""

import asyncio
import json
from datetime import timedelta
from functools import cache, lru_cache

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import BaseModel
from temporalio import activity, workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError

from countermand.agents.answers import Thought, normalised
from countermand.agents.builtin import BUILTINS, Transfer, transfers
from countermand.agents.context import Contexts
from countermand.agents.conversation import bounded, instructions_of
from countermand.agents.failures import as_failure
from countermand.agents.feed import TEXT
from countermand.agents.messages import Message, as_json
from countermand.agents.models import resolve_model
from countermand.agents.offline import AGENT
from countermand.agents.team import CONFIRMED, Agent, AgentName
from countermand.agents.turn_input import this_turn
from countermand.agents.usage import PRICES, Prices
from countermand.cache.feed import Feed
from countermand.cache.types import ContextRef
from countermand.saga.activities import HEARTBEAT_TIMEOUT, heartbeats
from countermand.saga.journal import safe_digest
from countermand.saga.tool import declared
from countermand.saga.types import Frozen, JsonObject


def queue_of_models(task_queue: str) -> str:
    """The task queue for model calls that ``countermand worker`` serves beside another one and that one's swarms."""
    return f"{task_queue}-models"


class ThinkRequest(Frozen):
    """Which agent is asked, and the turn's messages since the customer's own; the turn started with all else."""

    agent: AgentName
    model: str
    delta: list[Message]


class Thinker:
    """Holds what ``think`` needs of its worker.

    Args:
        contexts: Where conversations are read.
        feed: Where whoever watches a session sees the answer come; None shows nothing before it is whole.
        prices: What models cost.
    """

    def __init__(self, contexts: Contexts, feed: Feed | None = None, prices: Prices = PRICES) -> None:
        self._contexts = contexts
        self._feed = feed
        self._prices = prices

    @activity.defn
    async def think(self, request: ThinkRequest) -> Thought:
        """Ask the model once; retries are Temporal's."""
        async with heartbeats():
            turn = await this_turn()
            agent, ref = turn.team.agent(request.agent), turn.context
            base: list[AnyMessage] = await self._contexts.read(ref) if ref else []
            instructions = instructions_of(agent, base) + (f"\n{CONFIRMED}\n" if turn.confirmed else "")
            earlier = [message for message in base if not isinstance(message, SystemMessage)]
            said: list[AnyMessage] = [HumanMessage(turn.text), *request.delta]
            prompt: list[AnyMessage] = [SystemMessage(instructions), *earlier, *said]
            try:
                # A provider's client takes seconds to load, and heartbeats must go on.
                known = await asyncio.to_thread(cached_model, request.model)
                model = known.bind_tools(schemas(agent, transfers(agent, turn.team)))
                answer = await self._ask(model.with_config(RunnableConfig(metadata={AGENT: agent.name})), prompt, ref)
            except ApplicationError:
                # A model of ours says itself what Temporal shall do.
                raise
            except Exception as error:
                raise as_failure(error) from error
            thought = normalised(
                answer,
                prompt=safe_digest([*as_json(prompt)]),
                turn_length=len(said),
                price=self._prices.get(request.model),
            )
            if ref is not None and not thought.message.tool_calls:
                await self._contexts.share_next(ref, bounded([*base, *said, thought.message]))
            return thought

    async def _ask(
        self, model: Runnable[LanguageModelInput, AIMessage], messages: list[AnyMessage], ref: ContextRef | None
    ) -> AIMessage:
        if self._feed is None or ref is None:
            return await model.ainvoke(messages)
        whole: AIMessageChunk | None = None
        async for chunk in model.astream(messages):
            if chunk.text:
                await self._feed.append(ref.session, TEXT, {"saga": _saga_id(), "text": chunk.text})
            if not isinstance(chunk, AIMessageChunk):
                # A model that can't stream gives its whole answer at once.
                return chunk
            whole = chunk if whole is None else whole + chunk
        return whole or AIMessage("")


async def think(request: ThinkRequest, *, task_queue: str | None) -> Thought:
    """Ask the model, from workflow code. Raises ``ActivityError``."""
    return await workflow.execute_activity_method(
        Thinker.think,
        request,
        task_queue=task_queue,
        summary=f"{request.agent} thinks",
        start_to_close_timeout=timedelta(seconds=90),
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=RetryPolicy(maximum_attempts=3),
    )


def _saga_id() -> str:
    return activity.info().workflow_id or ""


@lru_cache(maxsize=8)
def cached_model(name: str) -> BaseChatModel:
    """``resolve_model``, once for each of the models that are in use: their clients are slow to make."""
    return resolve_model(name)


@cache
def _schema(args: type[BaseModel]) -> str:
    """As text, since a provider's client may change what it is given; pydantic takes a millisecond to make one."""
    return json.dumps(args.model_json_schema())


def schemas(agent: Agent, transfers: dict[str, str]) -> list[JsonObject]:
    """What the model sees of its tools, in the form that all of langchain's providers take."""
    tools = {name: (tool.description, tool.args) for name, tool in declared().items() if name in agent.tools}
    tools |= {name: (args.__doc__ or name, args) for name, args in BUILTINS.items()}
    tools |= {name: (description, Transfer) for name, description in transfers.items()}
    return [
        {
            "type": "function",
            "function": {"name": name, "description": description, "parameters": json.loads(_schema(args))},
        }
        for name, (description, args) in tools.items()
    ]
