"""Payments on the wire. All amounts are minor units."""

from typing import Literal, Self

from pydantic import Field, model_validator

from countermand.tools.world.models.common import Amount, Currency, Frozen, Reference, Undo

PaymentStatus = Literal["authorized", "captured", "voided", "expired"]
RefundStatus = Literal["pending", "succeeded", "failed"]


class Authorize(Frozen):
    """Hold an amount on a card. ``token`` stands for the card, never its number."""

    amount: Amount
    currency: Currency
    token: str = "tok_visa"  # noqa: S105 - the name of a test card
    reference: Reference = ""


class Capture(Frozen):
    """Take what is held; without ``amount`` all of it. What is not taken is released, once and for all."""

    payment_id: str
    amount: Amount | None = None


class Refund(Undo):
    """Give back what was taken.

    By ``original_key`` (of the capture, or of the authorisation) all that remains, as an undo does; by ``id`` (of the
    payment) also a part, under the provider's own rules.
    """

    amount: Amount | None = None

    @model_validator(mode="after")
    def _whole_by_key(self) -> Self:
        if self.original_key is not None and self.amount is not None:
            raise ValueError("amount goes with id: an undo by original_key gives back all that remains")
        return self


class Payment(Frozen):
    """A payment as it stands. ``amount`` was authorised; the others count what was taken and given back."""

    id: str
    status: PaymentStatus
    amount: int
    amount_captured: int
    amount_refunded: int
    currency: str
    token: str
    reference: str
    key: str
    capture_key: str | None
    created_at: float = Field(description="Seconds since the epoch.")


class RefundAnswer(Frozen):
    """A refund. ``succeeded`` may still turn to ``failed``: the money then never left."""

    id: str
    payment_id: str
    amount: int
    currency: str
    status: RefundStatus
    key: str
    created_at: float


class PaymentsState(Frozen):
    """All of the provider's tables."""

    payments: list[Payment]
    refunds: list[RefundAnswer]
