"""Contexts as turns leave them."""

from countermand.cache.types import Context

KEY = "cm:{default/s1}:ctx:1"


def context(version: int = 1, *, text: str = "hello", session: str = "s1", tenant: str = "default") -> Context:
    return Context(tenant=tenant, session=session, version=version, messages=({"type": "human", "content": text},))
