"""What the desk speaks of: products, customers, orders. Amounts are integer cents."""

from typing import Annotated, Literal

from pydantic import Field

from countermand.saga.types import Frozen

OrderId = Annotated[str, Field(description="The order's id, with its number sign: #W0000000.")]
ItemIds = Annotated[tuple[str, ...], Field(min_length=1, max_length=50)]
"""An item that is meant twice stands there twice."""

Options = dict[str, str]


class Variant(Frozen):
    """One thing that can be bought: a product in one colour, size, and so on."""

    item_id: str
    product_id: str
    name: str
    options: Options
    price: int = Field(description="Cents.")
    available: bool


class Address(Frozen):
    """Where something is sent to."""

    address1: str = Field(min_length=1)
    address2: str
    city: str = Field(min_length=1)
    state: str
    country: str = Field(min_length=1)
    zip: str = Field(min_length=1)


class User(Frozen):
    """A customer."""

    user_id: str
    first_name: str
    last_name: str
    email: str
    address: Address


class PaymentMethod(Frozen):
    """How a customer pays. ``balance`` is what a gift card holds, in cents; other methods have none."""

    payment_method_id: str
    user_id: str
    source: Literal["gift_card", "credit_card", "paypal"]
    brand: str | None = None
    last_four: str | None = None
    balance: int | None = None


class Line(Frozen):
    """One thing that was ordered, at the price of then (cents)."""

    name: str
    product_id: str
    item_id: str
    price: int
    options: Options


class Payment(Frozen):
    """Money that was taken or given back, in cents."""

    transaction_type: Literal["payment", "refund"]
    amount: int = Field(ge=0)
    payment_method_id: str


class Fulfillment(Frozen):
    """What was sent, and how it can be followed."""

    tracking_id: tuple[str, ...]
    item_ids: tuple[str, ...]


class Order(Frozen):
    """An order, with what was asked about it since."""

    order_id: str
    user_id: str
    status: str
    address: Address
    items: tuple[Line, ...]
    fulfillments: tuple[Fulfillment, ...]
    payment_history: tuple[Payment, ...]
    cancel_reason: str | None = None
    return_items: tuple[str, ...] | None = None
    return_payment_method_id: str | None = None
    exchange_items: tuple[str, ...] | None = None
    exchange_new_items: tuple[str, ...] | None = None
    exchange_payment_method_id: str | None = None
    exchange_price_difference: int | None = None


class Handover(Frozen):
    """A conversation that waits for a person."""

    handover_id: str
    summary: str
