"""Catalogue, quotes and reservations on the wire."""

from typing import Literal

from pydantic import EmailStr, Field

from countermand.tools.world.models.common import (
    Frozen,
    Hostname,
    Money,
    PlanName,
    Quantity,
    Reference,
    Region,
)


class Plan(Frozen):
    """A plan that can be ordered, at its price for a month."""

    plan: PlanName
    sku: str
    price: Money
    stock: int


class Catalogue(Frozen):
    """What can be ordered, and where."""

    plans: list[Plan]
    load_balancer: Money
    regions: list[Region]


class QuoteRequest(Frozen):
    """An order to be priced."""

    plan: PlanName
    region: Region
    quantity: Quantity = 1
    load_balancers: int = Field(default=0, ge=0, le=20)
    customer_email: EmailStr
    hostname: Hostname


class LineItem(Frozen):
    """One line of a quote."""

    sku: str
    description: str
    quantity: int
    unit_amount: int
    amount: int


class Quote(QuoteRequest):
    """A priced order. Its id derives from its content, so it never changes and standing on it costs nothing."""

    id: str
    line_items: list[LineItem]
    total: Money


class Reserve(Frozen):
    """Take units of a plan out of stock."""

    plan: PlanName
    quantity: Quantity = 1
    reference: Reference = ""


class Reservation(Frozen):
    """Units held for somebody."""

    id: str
    status: Literal["held", "released"]
    plan: PlanName
    quantity: int
    reference: str
    key: str
    created_at: float = Field(description="Seconds since the epoch.")


class InventoryState(Frozen):
    """All of the provider's tables."""

    plans: list[Plan]
    reservations: list[Reservation]
    quotes: list[Quote]
