"""Inventory: prices from the catalogue, and stock that is held for an order."""

from typing import Literal

from pydantic import EmailStr, Field

from countermand.saga.types import Frozen
from countermand.tools.fields import HostName, Identifier, Money

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
    sku: str
    quantity: int
