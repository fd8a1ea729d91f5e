"""An order as it is said over several messages: what stands of it, what is missing, and what can't be ordered."""

from collections.abc import Iterable
from typing import Self

from pydantic import ValidationError

from countermand.agents.details import PLANS, REGIONS, Details, Value, details
from countermand.agents.words import bare_number, corrects, pattern, refuses, stray_number, vocabulary
from countermand.saga.types import Frozen
from countermand.tools.inventory import QuoteOrder

_ASK = {
    "plan": f"a plan ({', '.join(PLANS)})",
    "region": f"a region ({', '.join(REGIONS)})",
    "email": "your e-mail address",
    "hostname": "the host name it should answer at",
    "quantity": "the number of machines",
    "load_balancers": "the number of load balancers",
}
_COUNTS = frozenset({"quantity", "load_balancers"})
REQUIRED = frozenset(_ASK) - _COUNTS

_SUBJECT = pattern(r"\b(envi?r\w*ments?|envs?|clusters?|host(?:ing|ed)|servers?|load[\s-]*balanc\w*|lbs?)\b")
_BESIDE = vocabulary(
    """
    a about actually all also an and at be by can could do does for from get give go good have hello hey hi host
    hostname i id im in instead is it lets like make me mean mine mail e email address my name need no not now
    of on one ok okay order plan please region rather set should size sized so sorry sure take thank thanks that
    the then there this to up use want was we well will with would yes you
    """
)


class Draft(Frozen):
    """What has been said of an order so far; values as they were said, not yet checked.

    ``unclear`` are the counts that were spoken of without one number: for those there is no default any more.
    """

    plan: Value | None = None
    region: Value | None = None
    email: Value | None = None
    hostname: Value | None = None
    load_balancers: Value | None = None
    quantity: Value | None = None
    card: Value | None = None
    unclear: frozenset[str] = frozenset()

    def missing(self) -> list[str]:
        """What must still be asked for."""
        return [ask for name, ask in _ASK.items() if name not in self.said() and name in REQUIRED | self.unclear]

    def said(self) -> dict[str, Value]:
        """What was said of the order itself, by field."""
        return self.model_dump(exclude={"card", "unclear"}, exclude_none=True)

    def order(self) -> QuoteOrder:
        """The order, checked. Raises pydantic's ``ValidationError``."""
        return QuoteOrder.model_validate(self.said())

    def problems(self) -> dict[str, str]:
        """What was said but can't be ordered, by field, and why."""
        said = self.said()
        try:
            QuoteOrder.model_validate(said)
        except ValidationError as error:
            return {
                name: f"{name.replace('_', ' ')} {_shown(said[name])}: {_reason(one['type'], one['msg'])}"
                for one in error.errors()
                if (name := str(one["loc"][0])) in said
            }
        return {}

    def after(self, message: str) -> Self:
        """The order after one more message; what is said later corrects what was said before."""
        said = details(message)
        values = dict(said.values)
        # What could not be ordered was told to the customer then, and is no part of the order now.
        gone = self.problems().keys() | said.several.keys() | said.undecided
        gone |= {name for name, refused in said.denied.items() if getattr(self, name) in refused}
        unclear = self.unclear | (_COUNTS & gone) | {name for name in said.plural if getattr(self, name) is None}
        if said.several:
            # Which of several values a count belongs to is not for us to guess.
            unclear |= _COUNTS & values.keys()
            values = {name: value for name, value in values.items() if name not in _COUNTS}
        if len(said.several) > 1:
            return self.model_copy(update={"unclear": frozenset(unclear - self.said().keys())})
        bare, named = bare_number(said.rest), _COUNTS & values.keys()
        if bare is not None and len(unclear) == 1 and not named:
            values |= dict.fromkeys(unclear, bare)
        elif bare is not None and corrects(message):
            # "Two load balancers, no, three": it may well be about them, but who knows.
            gone |= named or _COUNTS
            unclear |= named or _COUNTS
            values = {name: value for name, value in values.items() if name not in _COUNTS}
        elif self.quantity is None and stray_number(said.rest):
            unclear |= {"quantity"}
        return self.model_copy(
            update={**dict.fromkeys(gone, None), **values, "unclear": frozenset(unclear - values.keys())}
        )


def _shown(value: Value) -> str:
    return repr(value[:80]) if isinstance(value, str) else str(value)


def _reason(kind: str, message: str) -> str:
    # The pattern itself would tell a customer nothing.
    return "it must be a full host name such as app.example.com" if kind == "string_pattern_mismatch" else message


def understand(messages: Iterable[str]) -> Draft:
    """What the messages say of one order."""
    draft = Draft()
    for message in messages:
        draft = draft.after(message)
    return draft


def concerns(message: str, said: Details, *, ordering: bool) -> bool:
    """Whether a message is about an order of ours: by its subject, or by details that an order at hand waits for."""
    if refuses(message):
        return False
    if _SUBJECT.search(message) or "region" in said.values or "region" in said.several:
        return True
    if ordering:
        return bool(said) or bare_number(said.rest) is not None
    return bool(said) and vocabulary(said.rest) <= _BESIDE
