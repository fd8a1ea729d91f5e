"""What Stripe documents of payments: the cases that each file of tests shows, and what they set out from."""

from collections.abc import Callable, Collection
from typing import TypeVar

from pydantic import BaseModel, JsonValue

from countermand.tools.world.models.payments import Payment, RefundAnswer

from .caller import Caller, parsed

PREFIXES = ("idem-", "ref-", "cap-", "can-", "err-01", "err-02")
"""How the ids of the documented behaviours begin. Each belongs to one file of tests."""

FunctionT = TypeVar("FunctionT", bound=Callable[..., object])


class Behaviour(BaseModel):
    id: str


class StripeCard(BaseModel):
    number: str
    error_code: str | None
    decline_code: str | None


class Documented(BaseModel):
    behaviours: list[Behaviour]
    test_cards: list[StripeCard]


class Shown:
    """The documented behaviours that belong to one file of tests, and which of them it shows.

    Args:
        documented: All of them.
        prefixes: How the ids of this file's own begin.
        not_ours: Those that the world does not have.
    """

    def __init__(self, documented: JsonValue, *prefixes: str, not_ours: Collection[str] = ()) -> None:
        self.documented = Documented.model_validate(documented)
        self._prefixes = prefixes
        self._tested = set(not_ours)

    def shows(self, *behaviours: str) -> Callable[[FunctionT], FunctionT]:
        self._tested.update(behaviours)
        return lambda test: test

    def check_all(self) -> None:
        ids = {behaviour.id for behaviour in self.documented.behaviours}
        assert all(one.startswith(PREFIXES) for one in ids)
        assert self._tested == {one for one in ids if one.startswith(self._prefixes)}


async def authorized(world: Caller, *, key: str = "auth", amount: int = 1000, token: str = "tok_visa") -> Payment:  # noqa: S107 - a test card
    answer = await world.post("payments.authorize", key, amount=amount, currency="usd", token=token)
    return parsed(answer, Payment)


async def captured(world: Caller, *, amount: int = 1000, token: str = "tok_visa") -> Payment:  # noqa: S107 - a test card
    payment = await authorized(world, amount=amount, token=token)
    return parsed(await world.post("payments.capture", "cap", payment_id=payment.id), Payment)


async def the_payment(world: Caller) -> Payment:
    (payment,) = (await world.state()).payments.payments
    return payment


async def the_refund(world: Caller) -> RefundAnswer:
    (refund,) = (await world.state()).payments.refunds
    return refund
