"""Tools of the tests' own, against the world: each call carries the trouble that it will meet, attempt by attempt."""

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel

from countermand.saga import Probed, ToolCall, ToolRefused, ToolUnavailable, Undone
from countermand.saga.tool import OnFailure, Tool, declare
from countermand.saga.types import CallPolicy, Effect, Frozen
from countermand.tools import client
from countermand.tools.world.models import cloud, dns, inventory, mail, payments
from countermand.tools.world.models.common import Undone as WireUndone
from tests.saga.moments import moments_of

WireT = TypeVar("WireT", bound=BaseModel)
T = TypeVar("T")

Trouble = Literal[
    "none", "refused", "busy", "lost_before", "lost_after", "breaks_before", "breaks_after",
    "hangs_before", "hangs_after", "late",
]  # fmt: skip
"""What a call meets. ``late``: it hangs until it is given up, and has its effect only after its undo was answered."""

START_TO_CLOSE = timedelta(seconds=0.6)

_POLICY = CallPolicy(
    start_to_close=START_TO_CLOSE,
    initial_interval=timedelta(milliseconds=10),
    maximum_interval=timedelta(milliseconds=20),
    max_attempts=2,
)


class Effort(Frozen):
    """What a step's calls meet: the n-th attempt the n-th trouble, later ones none."""

    forward: tuple[Trouble, ...] = ()
    undo: tuple[Trouble, ...] = ()
    probe: tuple[Trouble, ...] = ()


class Made(Frozen):
    """What a step made in the world."""

    id: str


@dataclass(frozen=True)
class Operation(Generic[WireT]):
    """An operation of the world, and the one that undoes it."""

    do: str
    undo: str
    answer: type[WireT]
    body: Callable[[str], BaseModel]
    made: Callable[[WireT], str]
    undo_answer: type[BaseModel] | None = None

    async def act(self, call: ToolCall) -> Made:
        """Call the world."""
        return Made(id=self.made(await client.act(self.do, self.answer, self.body(call.key), key=call.key)))

    async def undone(self, call: ToolCall) -> Undone:
        """Undo it in the world."""
        return client.undone(await client.undo(self.undo, call, WireUndone[self.undo_answer or self.answer]))

    async def landed(self, call: ToolCall) -> Probed[Made]:
        """Ask the world."""
        return await client.probe(self.do, call, self.answer, lambda answer: Made(id=self.made(answer)))


def _host(key: str) -> str:
    return f"h{hashlib.sha256(key.encode()).hexdigest()[:20]}.example.dev"


STOCK = Operation(
    "inventory.reserve",
    "inventory.release",
    inventory.Reservation,
    lambda key: inventory.Reserve(plan="small", reference=key),
    lambda made: made.id,
)
MONEY = Operation(
    "payments.authorize",
    "payments.void",
    payments.Payment,
    lambda key: payments.Authorize(amount=100, currency="eur", reference=key),
    lambda made: made.id,
)
CLUSTER = Operation(
    "cloud.create_cluster",
    "cloud.terminate_cluster",
    cloud.Cluster,
    lambda key: cloud.CreateCluster(plan="small", region="eu-west", reference=key),
    lambda made: made.id,
)
ROUTE = Operation(
    "dns.register",
    "dns.unregister",
    dns.Registered,
    lambda key: dns.Register(name=_host(key), values=["192.0.2.1"], expected_version="any"),
    lambda made: made.record.id,
    dns.Restored,
)
MAIL = Operation(
    "mail.send",
    "",
    mail.Message,
    lambda key: mail.Send(to=["ada@example.com"], subject=key, body="placed"),
    lambda made: made.id,
)


async def _through(
    troubles: tuple[Trouble, ...], call: ToolCall, kind: str, work: Callable[[], Coroutine[None, None, T]]
) -> T:
    """Do the work through the trouble that this attempt meets."""
    moments = moments_of(call.saga_id)
    trouble = troubles[call.attempt - 1] if call.attempt <= len(troubles) else "none"
    await moments.reach(f"{call.step_no} {kind} begins")
    match trouble:
        case "refused":
            raise ToolRefused(f"{kind} of step {call.step_no} is refused")
        case "busy":
            raise ToolUnavailable("too many requests", retry_after=timedelta(milliseconds=20))
        case "lost_before":
            raise ToolUnavailable("no answer")
        case "breaks_before":
            raise RuntimeError("a bug in the tool")
        case "hangs_before":
            await asyncio.Event().wait()
        case "late":
            _land_late(call, work)
            await asyncio.Event().wait()
        case _:
            pass
    answer = await work()
    await moments.reach(f"{call.step_no} {kind} ends")
    match trouble:
        case "lost_after":
            raise ToolUnavailable("the answer was lost")
        case "breaks_after":
            raise RuntimeError("a bug in the tool")
        case "hangs_after":
            await asyncio.Event().wait()
        case _:
            pass
    return answer


def _land_late(call: ToolCall, work: Callable[[], Coroutine[None, None, T]]) -> None:
    moments = moments_of(call.saga_id)

    async def land() -> None:
        await moments.when(f"{call.step_no} undo ends", "ended")
        try:
            await work()
        except ToolRefused:
            moments.reached.append(f"{call.step_no} late call is refused")
        else:
            moments.reached.append(f"{call.step_no} late call is answered")

    moments.late.append(asyncio.create_task(land()))


def troubled(
    name: str,
    operation: Operation[WireT],
    *,
    effect: Effect = Effect.COMPENSABLE,
    on_failure: OnFailure = "rollback",
    attempts: int = 2,
) -> Tool[Effort, Made]:
    """Declare a tool that does an operation of the world through trouble."""

    async def forward(call: ToolCall, args: Effort) -> Made:
        return await _through(args.forward, call, "do", lambda: operation.act(call))

    async def undo(call: ToolCall, args: Effort, _result: Made | None) -> Undone:
        return await _through(args.undo, call, "undo", lambda: operation.undone(call))

    async def probe(call: ToolCall, args: Effort) -> Probed[Made]:
        return await _through(args.probe, call, "probe", lambda: operation.landed(call))

    can_undo = effect is Effect.COMPENSABLE
    tool = Tool(
        name=name,
        description=name,
        effect=effect,
        args=Effort,
        result=Made,
        forward=forward,
        undo=undo if can_undo else None,
        undo_name=f"undo_{name}" if can_undo else None,
        probe=probe,
        policy=_POLICY.model_copy(update={"max_attempts": attempts}),
        undo_policy=_POLICY.model_copy(update={"max_attempts": 3}),
        on_failure=on_failure,
        parallel=True,
    )
    declare(tool)
    return tool


async def _look(call: ToolCall, args: Effort) -> Made:
    async def look() -> Made:
        return Made(id=(await client.read("inventory.catalog", inventory.Catalogue)).plans[0].sku)

    return await _through(args.forward, call, "do", look)


hold_stock = troubled("hold_stock", STOCK)
hold_money = troubled("hold_money", MONEY)
hold_money_patiently = troubled("hold_money_patiently", MONEY, attempts=5)
make_cluster = troubled("make_cluster", CLUSTER)
write_route = troubled("write_route", ROUTE)
try_stock = troubled("try_stock", STOCK, on_failure="continue")
send_note = troubled("send_note", MAIL, effect=Effect.IRREVERSIBLE)
look_up = Tool(
    name="look_up",
    description="look_up",
    effect=Effect.READ,
    args=Effort,
    result=Made,
    forward=_look,
    policy=_POLICY,
    on_failure="continue",
    parallel=True,
)
declare(look_up)
