"""A shop that exists already: an MCP server over HTTP on loopback, with books that tests read."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import uvicorn
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from pydantic import BaseModel

from countermand.testing.contract import Happened
from countermand.tools.world.server import listen


class Payment(BaseModel):
    payment_id: str


class Found(BaseModel):
    payment_id: str | None


class Undone(BaseModel):
    effective: bool


@dataclass
class Shop:
    """Its state, and what goes wrong in it.

    Attributes:
        url: Where its MCP server answers.
        paid: Amounts by payment id, which is derived from the key.
        books: All effects.
        buried: Keys that were undone.
        loses_answers: How many charges take the money and answer with an error.
        down: Whether it answers nobody.
    """

    url: str = ""
    paid: dict[str, int] = field(default_factory=dict)
    books: list[Happened] = field(default_factory=list)
    buried: set[str] = field(default_factory=set)
    loses_answers: int = 0
    down: bool = False

    async def effects(self) -> list[Happened]:
        return self.books

    async def snapshot(self) -> object:
        return dict(self.paid)

    @asynccontextmanager
    async def outage(self) -> AsyncGenerator[None]:
        self.down = True
        yield
        self.down = False

    def charge(self, amount: int, key: str) -> Payment:
        if self.down:
            raise ToolError("nobody is here")
        if key in self.buried:
            raise ToolError("that charge was taken back")
        if amount > 1000:
            raise ToolError("too much for this card")
        made = Payment(payment_id=f"pay-{key}")
        if made.payment_id not in self.paid:
            self.paid[made.payment_id] = amount
            self.books.append(Happened(key, "do"))
        if self.loses_answers:
            self.loses_answers -= 1
            raise ToolError("the line went dead")
        return made

    def take_back(self, payment_id: str, key: str | None) -> Undone:
        if self.down:
            raise ToolError("nobody is here")
        if self.paid.pop(payment_id, None) is None:
            return Undone(effective=False)
        self.books.append(Happened(key, "undo"))
        return Undone(effective=True)


def server_of(shop: Shop) -> FastMCP:
    """Its MCP server: two ways to charge and two to refund, of which not all go together."""
    mcp = FastMCP("shop")

    @mcp.tool
    async def charge(amount: int, idempotency_key: str) -> Payment:
        """Charge the customer; the amount is in cents."""
        return shop.charge(amount, idempotency_key)

    @mcp.tool
    async def charge_once(amount: int) -> Payment:
        """Charge the customer; the shop numbers the charge itself."""
        return shop.charge(amount, f"own-{len(shop.books)}")

    @mcp.tool
    async def charge_in_words(amount: int, idempotency_key: str) -> str:
        """Charge the customer, and tell it in words."""
        return f"paid: {shop.charge(amount, idempotency_key).payment_id}"

    @mcp.tool
    async def refund_charge(original_key: str, idempotency_key: str) -> Undone:
        """Take back what was charged under a key; that key can't be charged any more."""
        undone = shop.take_back(f"pay-{original_key}", idempotency_key)
        shop.buried.add(original_key)
        return undone

    @mcp.tool
    async def refund_payment(payment_id: str) -> Undone:
        """Take back a payment."""
        return shop.take_back(payment_id, None)

    @mcp.tool
    async def find_charge(idempotency_key: str) -> Found:
        """The payment of a key, if there is one."""
        found = f"pay-{idempotency_key}"
        return Found(payment_id=found if found in shop.paid else None)

    return mcp


@contextmanager
def open_shop() -> Generator[Shop]:
    """Serve it from a thread of its own: ``from_mcp`` asks the server while the caller's event loop waits."""
    shop = Shop()
    with listen("127.0.0.1", 0) as listener:
        app = server_of(shop).http_app()
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none", lifespan="on"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        shop.url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        try:
            yield shop
        finally:
            server.should_exit = True
            thread.join()
