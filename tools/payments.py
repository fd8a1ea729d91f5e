"""Payments: authorise, capture, and give back."""

from pydantic import Field

from countermand.saga.types import Frozen
from countermand.tools.fields import Identifier, Money


class AuthorizePayment(Frozen):
    """Hold the quote's total on the customer's card."""

    quote_id: Identifier = Field(description="The quote's id; its total is what is authorised.")
    card_token: Identifier = Field(default="tok_visa", description="Token of the customer's card at the provider.")


class Payment(Frozen):
    """A payment at the provider."""

    payment_id: Identifier
    status: str
    total: Money


class CapturePayment(Frozen):
    """Take the money that was authorised."""

    payment_id: Identifier = Field(description="The payment's id, as authorize_payment answered it.")
