"""The far side of the MCP server's seam: what the workflows of one tenant would answer."""

from pydantic import JsonValue

from countermand.cache.server import FactConflict
from countermand.cache.types import Context, Fact, JsonObject

from .contexts import context

SAGA: JsonObject = {"id": "s1/t1", "state": "committed", "steps": []}


class Sessions:
    """Session ``s1`` with a context and no facts; ``foreign`` is another tenant's, given by mistake."""

    def __init__(self) -> None:
        self.contexts = {"s1": context(3), "foreign": context(session="foreign", tenant="other")}
        self.kept: dict[str, Fact] = {}

    async def list_sessions(self) -> tuple[str, ...]:
        return ("s1",)

    async def context(self, session: str) -> Context | None:
        return self.contexts.get(session)

    async def facts(self, session: str) -> tuple[Fact, ...] | None:
        return tuple(self.kept.values()) if session == "s1" else None

    async def put_fact(
        self, session: str, name: str, value: JsonValue, expected_version: int
    ) -> Fact | FactConflict | None:
        if session != "s1":
            return None
        current = self.kept[name].version if name in self.kept else 0
        if current != expected_version:
            return FactConflict(current_version=current)
        self.kept[name] = Fact(name=name, value=value, version=current + 1)
        return self.kept[name]

    async def saga_status(self, saga_id: str) -> JsonObject | None:
        return SAGA if saga_id == SAGA["id"] else None
