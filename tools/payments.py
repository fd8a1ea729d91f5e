"""Payments: authorise, capture, and give back."""

from pydantic import Field

from countermand.saga.types import Frozen, ListedEffect, Money, Probed, Standing, ToolCall, Undone
from countermand.tools import client
from countermand.tools.fields import Identifier
from countermand.tools.inventory import find_quote
from countermand.tools.tool import tool
from countermand.tools.world.models import payments as wire
from countermand.tools.world.models.common import Page
from countermand.tools.world.models.common import Undone as WireUndone


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


async def void_or_refund_payment(call: ToolCall, _args: AuthorizePayment, _result: Payment | None) -> Undone:
    """Let the money go: release the hold, or give back what was taken since."""
    try:
        voided = await client.undo("payments.void", call, WireUndone[wire.Payment])
        if voided.outcome == "done":
            return client.undone(voided, "hold released")
    except client.Refused as refused:
        if refused.code != "payment_captured":
            raise
    # Asked also when there was nothing to void: an earlier attempt's refund, its answer lost, is told again.
    return _refunded(
        await client.undo("payments.refund", call, WireUndone[wire.RefundAnswer], key=f"{call.key}:refund")
    )


async def _find_payment(call: ToolCall, _args: AuthorizePayment) -> Probed[Payment]:
    return await client.probe("payments.authorize", call, wire.Payment, _payment)


async def _list_holds() -> list[ListedEffect]:
    """Holds; one that was captured is passed on to the capture, for as long as the money was not given back."""
    return [
        ListedEffect(
            key=made.key,
            kind="payment",
            id=made.id,
            amount=made.amount,
            currency=made.currency,
            status=Standing.STANDS if made.status == "authorized" else Standing.PASSED_ON,
            args={"quote_id": made.reference, "card_token": made.token},
        )
        for made in await client.read_all("payments.list_payments", Page[wire.Payment])
        if made.status == "authorized" or made.amount_captured > made.amount_refunded
    ]


async def _total(args: AuthorizePayment) -> Money:
    return (await find_quote(args.quote_id)).total


@tool(
    effect="compensable",
    compensate=void_or_refund_payment,
    probe=_find_payment,
    price=_total,
    list_effects=_list_holds,
)
async def authorize_payment(call: ToolCall, args: AuthorizePayment) -> Payment:
    """Hold a quote's total on the customer's card; nothing is taken yet."""
    quote = await find_quote(args.quote_id)
    wanted = wire.Authorize(
        amount=quote.total.amount, currency=quote.total.currency, token=args.card_token, reference=quote.quote_id
    )
    return _payment(await client.act("payments.authorize", wire.Payment, wanted, key=call.key))


async def refund_payment(call: ToolCall, _args: CapturePayment, _result: Payment | None) -> Undone:
    """Give back what was taken."""
    return _refunded(await client.undo("payments.refund", call, WireUndone[wire.RefundAnswer]))


async def _find_capture(call: ToolCall, _args: CapturePayment) -> Probed[Payment]:
    return await client.probe("payments.capture", call, wire.Payment, _payment)


async def _list_captures() -> list[ListedEffect]:
    """What was taken and not given back, by the capture's key."""
    return [
        ListedEffect(
            key=made.capture_key,
            kind="capture",
            id=made.id,
            amount=made.amount_captured - made.amount_refunded,
            currency=made.currency,
            args={"payment_id": made.id},
        )
        for made in await client.read_all("payments.list_payments", Page[wire.Payment])
        if made.capture_key is not None and made.amount_captured > made.amount_refunded
    ]


@tool(effect="compensable", compensate=refund_payment, probe=_find_capture, list_effects=_list_captures)
async def capture_payment(call: ToolCall, args: CapturePayment) -> Payment:
    """Take the money that authorize_payment holds."""
    wanted = wire.Capture(payment_id=args.payment_id)
    return _payment(await client.act("payments.capture", wire.Payment, wanted, key=call.key))


def _payment(made: wire.Payment) -> Payment:
    amount = made.amount_captured or made.amount
    return Payment(payment_id=made.id, status=made.status, total=Money(amount=amount, currency=made.currency))


def _refunded(refund: WireUndone[wire.RefundAnswer]) -> Undone:
    return client.undone(refund, f"refund {refund.result.id} {refund.result.status}" if refund.result else "")
