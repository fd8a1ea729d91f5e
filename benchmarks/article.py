"""The reference article's plan: the activity bodies that both implementations share, and the tools made of them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar

import httpx2
from pydantic import JsonValue

from countermand.saga import Plan, PlannedStep, ToolCall, ToolRefused
from countermand.saga.types import Frozen, ProbeAnswer, Probed, Undone
from countermand.tools.tool import tool

TAKEN = "taken.example.com"
"""A host name that has a record already, so that the third step is refused for good."""

_http: ContextVar[httpx2.AsyncClient] = ContextVar("world")


class Order(Frozen):
    """What a step is about."""

    order: str


class Made(Frozen):
    """What a step made."""

    id: str


@asynccontextmanager
async def world_at(url: str) -> AsyncGenerator[None]:
    """Let the bodies that run inside the context call this world, in which the host name is taken."""
    limits = httpx2.Limits(max_connections=200, max_keepalive_connections=200)
    async with httpx2.AsyncClient(base_url=url, timeout=10, limits=limits) as http:
        (await http.post("/seed", json={"records": [{"name": TAKEN, "values": ["192.0.2.1"]}]})).raise_for_status()
        token = _http.set(http)
        try:
            yield
        finally:
            _http.reset(token)


# -- the bodies: one call to the world each ----------------------------------------------------------------------------


async def pay(key: str, order: str) -> Made:
    """Hold the money."""
    return Made(id=await _call("payments/authorize", key, amount=149_00, currency="usd", reference=order))


async def give_back(key: str, undo_key: str) -> None:
    """Release it."""
    await _call("payments/void", undo_key, original_key=key)


async def provision(key: str, order: str) -> Made:
    """Make the server."""
    return Made(id=await _call("cloud/create_cluster", key, plan="small", region="eu-west", reference=order))


async def terminate(key: str, undo_key: str) -> None:
    """Terminate it."""
    await _call("cloud/terminate_cluster", undo_key, original_key=key)


async def route(key: str, _order: str) -> Made:
    """Write the record; always refused."""
    return Made(id=await _call("dns/register", key, name=TAKEN, values=["192.0.2.2"]))


async def take_away(key: str, undo_key: str) -> None:
    """Take it away."""
    await _call("dns/unregister", undo_key, original_key=key)


async def _call(path: str, key: str, **body: JsonValue) -> str:
    answer = await _http.get().post(f"/{path}", json=body, headers={"Idempotency-Key": key})
    if answer.is_client_error:
        raise ToolRefused(answer.text)
    return str(answer.raise_for_status().json().get("id", ""))


# -- the same as tools -------------------------------------------------------------------------------------------------


async def _no_probe(_call: ToolCall, _args: Order) -> Probed[Made]:
    """Never asked here: no step ends unknown."""
    return Probed(ProbeAnswer.UNKNOWN)


async def _undo_pay(call: ToolCall, _args: Order, _result: Made | None) -> Undone:
    await give_back(call.step_key, call.key)
    return Undone(effective=True)


@tool(effect="compensable", compensate=_undo_pay, probe=_no_probe)
async def bench_pay(call: ToolCall, args: Order) -> Made:
    """Hold the money."""
    return await pay(call.key, args.order)


async def _undo_provision(call: ToolCall, _args: Order, _result: Made | None) -> Undone:
    await terminate(call.step_key, call.key)
    return Undone(effective=True)


@tool(effect="compensable", compensate=_undo_provision, probe=_no_probe)
async def bench_provision(call: ToolCall, args: Order) -> Made:
    """Make the server."""
    return await provision(call.key, args.order)


async def _undo_route(call: ToolCall, _args: Order, _result: Made | None) -> Undone:
    await take_away(call.step_key, call.key)
    return Undone(effective=True)


@tool(effect="compensable", compensate=_undo_route, probe=_no_probe)
async def bench_route(call: ToolCall, args: Order) -> Made:
    """Write the record; always refused."""
    return await route(call.key, args.order)


def plan(order: str) -> Plan:
    """The article's plan for one order."""
    tools = (bench_pay, bench_provision, bench_route)
    return Plan(steps=tuple(PlannedStep(tool=step.name, args={"order": order}) for step in tools))
