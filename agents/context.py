"""How ``think`` comes by the conversation that a turn follows on: near cache, then Redis, then the session itself."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage
from temporalio import activity

from countermand.agents.messages import as_json, from_json
from countermand.cache.context import ContextCache
from countermand.cache.types import Context, ContextRef


class Contexts:
    """Reads conversations by reference. Losing the cache costs a query; the session's workflow is the truth.

    Args:
        cache: Shared by all workers; None asks the workflow each time.
    """

    def __init__(self, cache: ContextCache | None = None) -> None:
        self._cache = cache

    async def read(self, ref: ContextRef) -> list[AnyMessage]:
        """The messages of exactly this state of a conversation. Called in an activity."""
        context = await self._cache.get(ref) if self._cache else None
        if context is None:
            session = activity.client().get_workflow_handle(ref.session)
            context = await session.query("context", result_type=Context)
            await self._share(context)
        return from_json(context.messages)

    async def share_next(self, ref: ContextRef, messages: Sequence[AnyMessage]) -> None:
        """Share what the conversation will be if the turn ends with these messages.

        Nobody is misled if it does not: the next turn's reference then names another digest, and this is a miss.
        """
        if self._cache is not None:
            tenant, version = self._cache.tenant, ref.version + 1
            await self._share(Context(tenant=tenant, session=ref.session, version=version, messages=as_json(messages)))

    async def _share(self, context: Context) -> None:
        if self._cache is not None and context.tenant == self._cache.tenant:
            await self._cache.put(context.ref, context)
