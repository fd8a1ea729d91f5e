"""Stripe's test cards, by token. Source: https://docs.stripe.com/testing. Never a real card."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Card:
    """What a test card does: ``code`` and ``decline_code`` when it declines, and how its refunds go."""

    number: str
    code: str | None = None
    decline_code: str | None = None
    refund: Literal["succeeds", "fails_later", "succeeds_later"] = "succeeds"


CARDS = {
    "tok_visa": Card("4242424242424242"),
    "tok_decline": Card("4000000000000002", "card_declined", "generic_decline"),
    "tok_insufficient_funds": Card("4000000000009995", "card_declined", "insufficient_funds"),
    "tok_lost_card": Card("4000000000009987", "card_declined", "lost_card"),
    "tok_stolen_card": Card("4000000000009979", "card_declined", "stolen_card"),
    "tok_expired_card": Card("4000000000000069", "expired_card"),
    "tok_incorrect_cvc": Card("4000000000000127", "incorrect_cvc"),
    "tok_processing_error": Card("4000000000000119", "processing_error"),
    "tok_velocity_exceeded": Card("4000000000006975", "card_declined", "card_velocity_exceeded"),
    "tok_charge_fails": Card("4000000000000341", "card_declined"),
    "tok_authentication_required": Card("4000002760003184", "authentication_required"),
    "tok_authenticated_on_setup": Card("4000002500003155"),
    "tok_refund_fails_later": Card("4000000000005126", refund="fails_later"),
    "tok_refund_succeeds_later": Card("4000000000007726", refund="succeeds_later"),
    "tok_disputed_later": Card("4000000000000259"),
    "tok_available_at_once": Card("4000000000000077"),
}
