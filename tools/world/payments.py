"""Payments: hold, take, release, give back, by Stripe's documented rules."""

from sqlalchemy import select
from sqlalchemy.orm import Mapped, Session, mapped_column

from countermand.tools.world.cards import CARDS
from countermand.tools.world.database import ThingRow
from countermand.tools.world.errors import Refusal
from countermand.tools.world.idempotency import probe
from countermand.tools.world.ledger import Direction, LedgerRow, Standing
from countermand.tools.world.models.common import ById, Money, Page, Paging, Probe, Undo, Undone
from countermand.tools.world.models.payments import (
    Authorize,
    Capture,
    Payment,
    PaymentsState,
    Refund,
    RefundAnswer,
)
from countermand.tools.world.operations import Call, Provider, by_id, effect, page, read, thing_id, to_undo

AUTHORIZATION_LIFETIME_S = 7 * 86_400
"""How long an online card hold lasts. Source: https://stripe.com/blog/auth-capture."""


class PaymentRow(ThingRow, kw_only=True):
    """A payment, from the hold to what was given back."""

    __tablename__ = "payments"

    status: Mapped[str]
    amount: Mapped[int]
    amount_captured: Mapped[int] = mapped_column(default=0)
    amount_refunded: Mapped[int] = mapped_column(default=0)
    currency: Mapped[str]
    token: Mapped[str]
    reference: Mapped[str]
    capture_key: Mapped[str | None] = mapped_column(unique=True, default=None)

    @property
    def refundable(self) -> int:
        """What was taken and not given back, in minor units."""
        return self.amount_captured - self.amount_refunded


class RefundRow(ThingRow, kw_only=True):
    """A refund; ``turns_to`` is what it becomes at ``turns_at``."""

    __tablename__ = "refunds"

    payment_id: Mapped[str] = mapped_column(index=True)
    amount: Mapped[int]
    currency: Mapped[str]
    status: Mapped[str]
    turns_to: Mapped[str | None] = mapped_column(default=None)
    turns_at: Mapped[float | None] = mapped_column(default=None, index=True)


def authorize(call: Call, body: Authorize) -> Payment:
    """Hold an amount on a card, or decline as the card's documentation says."""
    card = CARDS.get(body.token)
    if card is None:
        raise Refusal(400, "resource_missing", f"token: no card has the token {body.token[:80]!r}.")
    if card.code is not None:
        raise Refusal(
            402,
            card.code,
            f"The card was declined: {card.decline_code or card.code}. Use another card.",
            type="card_error",
            decline_code=card.decline_code,
        )
    row = PaymentRow(
        id=thing_id("pay", call),
        key=call.key,
        created_at=call.now,
        status="authorized",
        amount=body.amount,
        currency=body.currency,
        token=body.token,
        reference=body.reference,
    )
    call.session.add(row)
    call.record("do", "payment", row.id, Money(amount=row.amount, currency=row.currency))
    return Payment.model_validate(row)


def capture(call: Call, body: Capture) -> Payment:
    """Take what is held, once; the rest of the hold is released."""
    row = by_id(call, PaymentRow, "payment", body.payment_id)
    if row.status == "captured":
        raise Refusal(400, "charge_already_captured", f"Payment {row.id} has already been captured.")
    if row.status == "expired":
        raise Refusal(400, "charge_expired_for_capture", f"The hold of payment {row.id} has lapsed.")
    if row.status != "authorized":
        raise _unexpected_state(row)
    amount = body.amount or row.amount
    if amount > row.amount:
        raise Refusal(400, "amount_too_large", f"amount: {amount} is above the authorised {row.amount}.")
    row.status, row.amount_captured, row.capture_key = "captured", amount, call.key
    call.record("do", "capture", row.id, Money(amount=amount, currency=row.currency))
    return Payment.model_validate(row)


def void(call: Call, body: Undo) -> Undone[Payment]:
    """Release a hold. What was captured can't be voided: it is refunded."""
    row = to_undo(call, PaymentRow, "payment", body)
    if row is None:
        return Undone[Payment](outcome="noop", result=None)
    if row.status != "authorized":
        if body.id is not None:
            raise _unexpected_state(row)
        if row.refundable:
            raise Refusal(400, "payment_captured", f"Payment {row.id} is captured: refund it instead.")
        return Undone[Payment](outcome="noop", result=Payment.model_validate(row))
    row.status = "voided"
    call.record("undo", "payment", row.id, Money(amount=row.amount, currency=row.currency))
    return Undone[Payment](outcome="done", result=Payment.model_validate(row))


def refund(call: Call, body: Refund) -> Undone[RefundAnswer]:
    """Give back all that remains, or by id a part. It always goes to the card that was charged."""
    row = _captured(call, body)
    if row is None:
        return Undone[RefundAnswer](outcome="noop", result=None)
    if row.status == "authorized":
        raise Refusal(400, "payment_not_captured", f"Payment {row.id} is not captured: void it instead.")
    if not row.refundable:
        if body.original_key is not None:
            return Undone[RefundAnswer](outcome="noop", result=None)
        if row.status != "captured":
            raise _unexpected_state(row)
        raise Refusal(400, "charge_already_refunded", f"Payment {row.id} has already been refunded.")
    amount = body.amount or row.refundable
    if amount > row.refundable:
        raise Refusal(400, "amount_too_large", f"amount: {amount} is above the {row.refundable} that remain.")
    made = RefundRow(
        id=thing_id("re", call),
        key=call.key,
        created_at=call.now,
        payment_id=row.id,
        amount=amount,
        currency=row.currency,
        status="succeeded",
    )
    fate = CARDS[row.token].refund
    if fate == "fails_later":
        made.turns_to, made.turns_at = "failed", call.now + call.settings.refund_delay_s
    elif fate == "succeeds_later" or call.settings.refunds_held:
        made.status, made.turns_to = "pending", "succeeded"
        made.turns_at = call.now + (call.settings.refund_delay_s if fate == "succeeds_later" else 0)
    row.amount_refunded += amount
    call.session.add(made)
    call.record("undo", "capture", row.id, Money(amount=amount, currency=row.currency))
    return Undone[RefundAnswer](outcome="done", result=RefundAnswer.model_validate(made))


def settle(call: Call) -> None:
    """Let time do its work: refunds turn out, holds lapse. What money does of itself enters the ledger too."""
    for made in call.session.scalars(select(RefundRow).where(RefundRow.turns_at <= call.now)):
        if made.turns_to == "succeeded" and call.settings.refunds_held:
            continue
        if made.turns_to == "failed":
            row = by_id(call, PaymentRow, "payment", made.payment_id)
            row.amount_refunded -= made.amount
            _by_itself(call, "refund_failed", "do", row, made.amount)
        made.status, made.turns_to, made.turns_at = made.turns_to or made.status, None, None
    lapsed = PaymentRow.created_at <= call.now - AUTHORIZATION_LIFETIME_S
    for row in call.session.scalars(select(PaymentRow).where(PaymentRow.status == "authorized", lapsed)):
        row.status = "expired"
        _by_itself(call, "expired", "undo", row, row.amount)


def get_payment(call: Call, body: ById) -> Payment:
    """One payment."""
    return Payment.model_validate(by_id(call, PaymentRow, "payment", body.id))


def list_payments(call: Call, body: Paging) -> Page[Payment]:
    """Payments, oldest first."""
    return page(call, PaymentRow, "payment", Payment, body)


def get_refund(call: Call, body: ById) -> RefundAnswer:
    """One refund."""
    return RefundAnswer.model_validate(by_id(call, RefundRow, "refund", body.id))


def list_refunds(call: Call, body: Paging) -> Page[RefundAnswer]:
    """Refunds, oldest first."""
    return page(call, RefundRow, "refund", RefundAnswer, body)


def tables(session: Session) -> PaymentsState:
    """All of the provider's tables."""
    return PaymentsState(
        payments=[Payment.model_validate(row) for row in session.scalars(select(PaymentRow).order_by(PaymentRow.seq))],
        refunds=[
            RefundAnswer.model_validate(row) for row in session.scalars(select(RefundRow).order_by(RefundRow.seq))
        ],
    )


def standing(session: Session) -> list[Standing]:
    """Payments that hold money or took it: the amount is what is held, or taken and not given back."""
    found: list[Standing] = []
    for row in session.scalars(select(PaymentRow).order_by(PaymentRow.seq)):
        amount = row.amount if row.status == "authorized" else row.refundable
        if amount:
            found.append(
                Standing(
                    provider="payments", kind="payment", id=row.id, key=row.key, amount=amount, currency=row.currency
                )
            )
    return found


def _captured(call: Call, body: Refund) -> PaymentRow | None:
    """The payment that a refund names: by id, by the key of its capture, or by that of its authorisation."""
    if body.original_key is not None:
        captured = call.session.scalar(select(PaymentRow).where(PaymentRow.capture_key == body.original_key))
        if captured is not None:
            return captured
    return to_undo(call, PaymentRow, "payment", body)


def _unexpected_state(row: PaymentRow) -> Refusal:
    return Refusal(400, "payment_intent_unexpected_state", f"Payment {row.id} is {row.status}.")


def _by_itself(call: Call, event: str, direction: Direction, row: PaymentRow, amount: int) -> None:
    """Write into the ledger what the provider did without being called."""
    call.session.add(
        LedgerRow(
            at=call.now,
            provider="payments",
            operation=f"payments.{event}",
            kind="capture" if direction == "do" else "payment",
            id=row.id,
            key=None,
            direction=direction,
            amount=amount,
            currency=row.currency,
        )
    )


PROVIDER = Provider(
    name="payments",
    operations=(
        effect("payments.authorize", Authorize, authorize),
        effect("payments.capture", Capture, capture),
        effect("payments.void", Undo, void, undoes=("payments.authorize",)),
        effect("payments.refund", Refund, refund, undoes=("payments.capture", "payments.authorize")),
        read("payments.get_payment", ById, get_payment),
        read("payments.list_payments", Paging, list_payments),
        read("payments.get_refund", ById, get_refund),
        read("payments.list_refunds", Paging, list_refunds),
        read("payments.probe", Probe, probe),
    ),
    tables=tables,
    standing=standing,
    settle=settle,
)
