"""A client as any would write it: plain HTTP, and the answers parsed by the models that are documented."""

import asyncio
from dataclasses import dataclass
from typing import TypeVar

import httpx2
from pydantic import BaseModel, JsonValue

from countermand.tools.world.control import State
from countermand.tools.world.errors import ErrorBody, ErrorDetail
from countermand.tools.world.faults import Fault
from countermand.tools.world.ledger import Standing
from countermand.tools.world.models.common import Probed

ModelT = TypeVar("ModelT", bound=BaseModel)


def parsed(answer: httpx2.Response, model: type[ModelT]) -> ModelT:
    """The answer of a success."""
    assert answer.status_code == 200, answer.text
    return model.model_validate_json(answer.content)


def error(answer: httpx2.Response) -> ErrorDetail:
    """The answer of a refusal or a failure."""
    assert answer.status_code >= 400, answer.text
    return ErrorBody.model_validate_json(answer.content).error


def outcome(answer: httpx2.Response) -> JsonValue:
    """What an undo says it did."""
    assert answer.status_code == 200, answer.text
    body: dict[str, JsonValue] = answer.json()
    return body["outcome"]


@dataclass(frozen=True)
class Caller:
    """Calls one world."""

    http: httpx2.AsyncClient

    async def post(self, operation: str, key: str, **body: JsonValue) -> httpx2.Response:
        return await self.http.post(path(operation), json=body, headers={"Idempotency-Key": key})

    async def get(self, operation: str, **query: str | int) -> httpx2.Response:
        return await self.http.get(path(operation), params=query)

    async def state(self) -> State:
        return parsed(await self.http.get("/state"), State)

    async def standing(self) -> list[Standing]:
        return (await self.state()).standing

    async def effects(self) -> list[tuple[str, str | None]]:
        return [(row.operation, row.key) for row in (await self.state()).ledger]

    async def stock(self, plan: str) -> int:
        return next(item.stock for item in (await self.state()).inventory.plans if item.plan == plan)

    async def probe(self, provider: str, key: str) -> Probed:
        return parsed(await self.get(f"{provider}.probe", key=key), Probed)

    async def until_in_flight(self, provider: str, key: str) -> None:
        """Wait until the world has begun to execute the call with this key."""
        async with asyncio.timeout(10):
            while (await self.probe(provider, key)).status != "unknown":
                pass

    async def until_idle(self, provider: str, key: str) -> Probed:
        """Wait until the call with this key is no longer under way."""
        async with asyncio.timeout(10):
            while (answer := await self.probe(provider, key)).status == "unknown":
                pass
        return answer

    async def set_fault(self, operation: str, kind: str, **more: JsonValue) -> Fault:
        return parsed(await self.http.post("/faults", json={"operation": operation, "kind": kind, **more}), Fault)

    async def fired(self) -> list[int]:
        faults: list[dict[str, JsonValue]] = (await self.http.get("/faults")).json()
        return [Fault.model_validate(fault).fired for fault in faults]

    async def seed(self, **stage: JsonValue) -> None:
        answer = await self.http.post("/seed", json=stage)
        assert answer.status_code == 200, answer.text

    async def let_time_pass(self, seconds: float) -> None:
        answer = await self.http.post("/clock", json={"seconds": seconds})
        assert answer.status_code == 200, answer.text


def path(operation: str) -> str:
    """Where an operation is served."""
    return "/" + operation.replace(".", "/")
