"""The far side of the MCP server's seam: what the workflows of one tenant would answer."""

from countermand.cache.types import Context, Fact, FactConflict, FactRefused, Facts, JsonObject, PutFact

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

    async def facts(self, session: str) -> Facts | None:
        if session != "s1":
            return None
        version = sum(fact.version for fact in self.kept.values())
        return Facts(tenant="default", session=session, version=version, facts=tuple(self.kept.values()))

    async def put_fact(self, session: str, put: PutFact) -> Fact | FactConflict | FactRefused | None:
        if session != "s1":
            return None
        if put.name == "unwanted":
            return FactRefused(reason="nobody wants it")
        current = self.kept[put.name].version if put.name in self.kept else 0
        if current != put.expected_version:
            return FactConflict(current_version=current)
        self.kept[put.name] = Fact(name=put.name, value=put.value, version=current + 1)
        return self.kept[put.name]

    async def saga_status(self, saga_id: str) -> JsonObject | None:
        return SAGA if saga_id == SAGA["id"] else None
