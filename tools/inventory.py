"""Inventory: prices from the catalogue, and stock that is held for an order."""

from typing import Literal

from pydantic import EmailStr, Field

from countermand.saga.types import Frozen, ListedEffect, Money, Probed, ToolCall, Undone
from countermand.tools import client
from countermand.tools.fields import HostName, Identifier
from countermand.tools.tool import tool
from countermand.tools.world.models import inventory as wire
from countermand.tools.world.models.common import Page
from countermand.tools.world.models.common import Undone as WireUndone

Plan = Literal["small", "medium", "large"]
Region = Literal["eu-west", "eu-north", "us-east", "ap-south"]


class QuoteOrder(Frozen):
    """What the customer wants."""

    plan: Plan = Field(description="Size of the environment.")
    region: Region = Field(description="Where it runs.")
    email: EmailStr = Field(description="The customer's e-mail address.")
    hostname: HostName = Field(description="Host name that is routed to the environment.")
    load_balancers: int = Field(default=1, ge=1, le=10, description="Number of load balancers.")
    quantity: int = Field(default=1, ge=1, le=100, description="Number of machines in the environment.")


class QuoteLine(Frozen):
    """One line of a quote."""

    item: str
    quantity: int
    price: Money


class Quote(Frozen):
    """A priced order; amounts come from the catalogue and from nowhere else."""

    quote_id: Identifier
    order: QuoteOrder
    lines: tuple[QuoteLine, ...]
    total: Money


class ReserveStock(Frozen):
    """Hold the quote's machines."""

    quote_id: Identifier = Field(description="The quote's id, as quote_order answered it.")


class Reservation(Frozen):
    """Held stock."""

    reservation_id: Identifier
    plan: Plan
    quantity: int


@tool(effect="read", parallel=True)
async def quote_order(_call: ToolCall, args: QuoteOrder) -> Quote:
    """Price an order. It reserves nothing and costs nothing; the other tools take the quote's id."""
    asked = wire.QuoteRequest(
        plan=args.plan,
        region=args.region,
        quantity=args.quantity,
        load_balancers=args.load_balancers,
        customer_email=args.email,
        hostname=args.hostname,
    )
    return _quote(await client.ask("inventory.quote", wire.Quote, asked))


async def find_quote(quote_id: str) -> Quote:
    """The quote with this id; where every other tool gets its amounts and quantities from."""
    return _quote(await client.read("inventory.get_quote", wire.Quote, id=quote_id))


async def release_stock(call: ToolCall, _args: ReserveStock, _result: Reservation | None) -> Undone:
    """Put the machines back."""
    return client.undone(await client.undo("inventory.release", call, WireUndone[wire.Reservation]))


async def _find_reservation(call: ToolCall, _args: ReserveStock) -> Probed[Reservation]:
    return await client.probe("inventory.reserve", call, wire.Reservation, _reservation)


async def _list_reservations() -> list[ListedEffect]:
    held = await client.read_all("inventory.list_reservations", Page[wire.Reservation])
    return [
        ListedEffect(key=made.key, kind="reservation", id=made.id, args={"quote_id": made.reference})
        for made in held
        if made.status == "held"
    ]


@tool(effect="compensable", compensate=release_stock, probe=_find_reservation, list_effects=_list_reservations)
async def reserve_stock(call: ToolCall, args: ReserveStock) -> Reservation:
    """Hold the machines of a quote, so that nobody else gets them."""
    quote = await find_quote(args.quote_id)
    wanted = wire.Reserve(plan=quote.order.plan, quantity=quote.order.quantity, reference=quote.quote_id)
    return _reservation(await client.act("inventory.reserve", wire.Reservation, wanted, key=call.key))


def _quote(quote: wire.Quote) -> Quote:
    return Quote(
        quote_id=quote.id,
        order=QuoteOrder(
            plan=quote.plan,
            region=quote.region,
            email=quote.customer_email,
            hostname=quote.hostname,
            load_balancers=quote.load_balancers,
            quantity=quote.quantity,
        ),
        lines=tuple(
            QuoteLine(
                item=line.description,
                quantity=line.quantity,
                price=Money(amount=line.amount, currency=quote.total.currency),
            )
            for line in quote.line_items
        ),
        total=Money(amount=quote.total.amount, currency=quote.total.currency),
    )


def _reservation(made: wire.Reservation) -> Reservation:
    return Reservation(reservation_id=made.id, plan=made.plan, quantity=made.quantity)
