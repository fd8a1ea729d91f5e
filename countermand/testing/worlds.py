"""The world as a test sees it: its own ledger, which is the only judge, and its faults."""

import ssl
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2
from pydantic import JsonValue, TypeAdapter

from countermand.testing.contract import Happened
from countermand.tools.world.control import State
from countermand.tools.world.faults import Fault
from countermand.tools.world.ledger import LedgerEntry, Standing
from countermand.tools.world.simulation import OPERATIONS


@dataclass(frozen=True)
class WorldUnderTest:
    """A running world.

    Args:
        url: Its base URL.
    """

    url: str

    async def state(self) -> State:
        """Everything: each provider's tables, what stands, and the ledger."""
        return State.model_validate_json(await self._call("GET", "/state"))

    async def standing(self) -> list[Standing]:
        """The effects that stand now; empty when the world is net zero."""
        return (await self.state()).standing

    async def ledger(self) -> list[LedgerEntry]:
        """Every effect that ever happened, in order."""
        return (await self.state()).ledger

    async def done(self) -> list[str]:
        """The operations that had an effect, in order."""
        return [entry.operation for entry in await self.ledger()]

    async def fault(self, operation: str, kind: str, **how: JsonValue) -> Fault:
        """Break an operation; ``how`` is key, effect, nth, times, probability, seed, delay_s, retry_after_s."""
        return Fault.model_validate_json(
            await self._call("POST", "/faults", {"operation": operation, "kind": kind, **how})
        )

    async def fired(self, fault: Fault) -> int:
        """How often a fault struck."""
        return sum(one.fired for one in await self.faults() if one.id == fault.id)

    async def faults(self) -> list[Fault]:
        """All faults that are set, with how often each struck."""
        return _FAULTS.validate_json(await self._call("GET", "/faults"))

    async def clear_faults(self) -> None:
        """Mend everything."""
        await self._call("DELETE", "/faults")

    async def call(self, operation: str, key: str, **body: JsonValue) -> dict[str, JsonValue]:
        """Call an operation as a tool would, under any key; answers what the world does."""
        async with httpx2.AsyncClient(base_url=self.url, timeout=30) as client:
            path = f"/{operation.replace('.', '/')}"
            response = await client.post(path, json=body, headers={"Idempotency-Key": key})
        if response.is_error:
            raise AssertionError(f"{operation}: {response.text}")
        return _ANSWER.validate_json(response.content)

    async def seed(self, **stage: JsonValue) -> None:
        """Set the stage: delays, quotas, stock, records and mails that are there before anybody calls."""
        await self._call("POST", "/seed", stage)

    async def let_pass(self, seconds: float) -> None:
        """Let time pass: refunds turn out, holds lapse."""
        await self._call("POST", "/clock", {"seconds": seconds})

    async def reset(self) -> None:
        """Empty the world."""
        await self._call("POST", "/reset", {})

    async def effects(self) -> list[Happened]:
        """Every effect that ever happened, as the tool contract reads it."""
        return [Happened(entry.key, entry.direction) for entry in await self.ledger()]

    async def snapshot(self) -> dict[str, object]:
        """What stands and what there is, as the tool contract compares it.

        Money counts once it is taken: a capture uses up its hold, and no refund brings that back.
        """
        state = await self.state()
        taken: Counter[str] = Counter()
        for payment in state.payments.payments:
            taken[payment.currency] += payment.amount_captured - payment.amount_refunded
        return {
            "taken": {currency: amount for currency, amount in taken.items() if amount},
            "stock": {plan.plan: plan.stock for plan in state.inventory.plans},
            "records": state.dns.records,
            "standing": [effect for effect in state.standing if effect.provider != "payments"],
        }

    @asynccontextmanager
    async def outage(self) -> AsyncGenerator[None]:
        """Inside the context every operation of every provider answers 503."""
        for operation in OPERATIONS:
            await self.fault(operation, "http_503")
        try:
            yield
        finally:
            await self.clear_faults()

    async def _call(self, method: str, path: str, body: dict[str, JsonValue] | None = None) -> bytes:
        async with httpx2.AsyncClient(base_url=self.url, timeout=30, verify=_NO_TLS) as client:
            response = await client.request(method, path, json=body)
        if response.is_error:
            raise AssertionError(f"{method} {path}: {response.text}")
        return response.content


_ANSWER = TypeAdapter(dict[str, JsonValue])
_FAULTS = TypeAdapter(list[Fault])
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""The world speaks plain HTTP: without this, every client would read the machine's certificates, 40 ms each."""
