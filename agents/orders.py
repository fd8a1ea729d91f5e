"""What the stub understands of plain words: orders, corrections, and the little words around them."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import get_args

from pydantic import ValidationError

from countermand.saga.types import Frozen
from countermand.tools.inventory import Plan, QuoteOrder, Region

PLANS: tuple[str, ...] = get_args(Plan)
REGIONS: tuple[str, ...] = get_args(Region)

_WORDS = "zero no none|one a an single|two couple both|three|four|five|six|seven|eight|nine|ten"
_NUMBERS = {word: number for number, words in enumerate(_WORDS.split("|")) for word in words.split()}


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.VERBOSE)


_NUMBER = r"[-+]?\d[\d,._]*(?:\^\d+|e\d+)?|" + "|".join(_NUMBERS)
_EMAIL = _pattern(r"[^\s,;<>()]*@[^\s,;<>()]*")
_HOST = _pattern(r"\b(?:https?://)?((?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?\.)+[a-z][a-z0-9-]*[a-z0-9])\b")
_HOST_AFTER = _pattern(r"\b(?:host(?:\s*name)?|domain)\s+(?:is\s+|name\s+is\s+|to\s+)?[\"']?([^\s,;\"']+)")
_BALANCERS = _pattern(rf"({_NUMBER})\s+(?:\w+\s+)?(?:load[\s-]*balancers?|lbs?)\b")
_QUANTITY = _pattern(
    rf"""(?:quantity|qty|count)(?:\s+(?:of|is|to))?\s*[:=]?\s*({_NUMBER})
    | ({_NUMBER})\s+(?:machines?|nodes?|servers?|(?:(?:small|medium|large)\s+)?environments\b)"""
)
_CARD = re.compile(r"\btok_[A-Za-z0-9_]+")
_REGION = _pattern(r"\b([a-z]{2,3})[\s_-]?(west|north|east|south|[a-z]{3,6})(?:-?\d)?\b")
_REGION_AFTER = _pattern(r"\bregion\s+(?:is\s+|to\s+)?([a-z]+[\s-]?[a-z0-9]*)")
_PLAN_AFTER = _pattern(r"\b(?:plan|size)\s+(?:is\s+|to\s+)?([a-z]+) | \ban?\s+(\w+)\s+(?:environment|plan|cluster)\b")
_NOT = _pattern(r"\b(?:not|instead\s+of|rather\s+than|no\s+longer|isn'?t)\s+(?:at\s+|in\s+|a\s+|the\s+)?$")

YES = _pattern(
    r"""^\W*(yes|yep|yeah|yup|sure|ok(ay)?|please\s+do|go\s+ahead|go\s+for\s+it|do\s+it|place(\s+it|\s+the\s+order)?|
    confirm(ed)?|i\s+confirm|sounds?\s+good|looks?\s+good|perfect|that'?s\s+(right|fine|good|correct)|agreed|proceed|
    buy\s+it|order\s+it)\b"""
)
NO = _pattern(r"^\W*(no|nope|not\s+yet|don'?t|do\s+not|never\s*mind|cancel|stop|forget\s+it|wait)\b")
REVOKE = _pattern(
    r"\b(cancel|undo|revoke|countermand|take\s+back|reverse)\b.*\b(order|it|that)\b.*\b(just|placed|last|made|bought)\b"
)
ORDERING = _pattern(r"\b(environments?|enviroments?|clusters?|hosting|load[\s-]*balancers?|plan)\b")
HELP = _pattern(r"\b(help|who\s+are\s+you|what\s+can\s+you\s+do|hello|hi|hey)\b")


class Draft(Frozen):
    """What has been said of an order so far; values as they were said, not yet checked."""

    plan: str | None = None
    region: str | None = None
    email: str | None = None
    hostname: str | None = None
    load_balancers: int | None = None
    quantity: int | None = None
    card: str | None = None

    def missing(self) -> list[str]:
        """What must still be asked for."""
        wanted = {
            "plan": f"a plan ({', '.join(PLANS)})",
            "region": f"a region ({', '.join(REGIONS)})",
            "email": "your e-mail address",
            "hostname": "the host name it should answer at",
        }
        return [ask for name, ask in wanted.items() if getattr(self, name) is None]

    def order(self) -> QuoteOrder:
        """The order, checked. Raises pydantic's ``ValidationError``."""
        return QuoteOrder.model_validate(self.model_dump(exclude={"card"}, exclude_none=True))

    def problems(self) -> dict[str, str]:
        """What was said but can't be ordered, by field, and why."""
        said = self.model_dump(exclude={"card"}, exclude_none=True)
        try:
            QuoteOrder.model_validate(said)
        except ValidationError as error:
            return {
                str(one["loc"][0]): f"{one['loc'][0]} {said[str(one['loc'][0])]!r}: {one['msg']}"
                for one in error.errors()
                if str(one["loc"][0]) in said
            }
        return {}


def understand(messages: Iterable[str]) -> Draft:
    """What the messages say of one order; what is said later corrects what was said before."""
    draft = Draft()
    for message in messages:
        # What could not be ordered was told to the customer then, and is no part of the order now.
        draft = draft.model_copy(update=dict.fromkeys(draft.problems(), None) | details(message))
    return draft


def details(message: str) -> dict[str, str | int]:
    """The order's details that one message names."""
    found: dict[str, str | int] = {}
    if email := _last(_EMAIL, message):
        found["email"] = email.strip(".!?'\"")
    rest = _EMAIL.sub(" ", message)
    if card := _CARD.search(rest):
        found["card"] = card[0]
    named_host = _HOST_AFTER.search(rest)
    if host := _last(_HOST, rest):
        found["hostname"] = host
    elif named_host:
        found["hostname"] = named_host[1].rstrip(".!?")
    rest = _HOST.sub(" ", rest)
    if (balancers := _BALANCERS.search(rest)) is not None:
        found["load_balancers"] = _number(balancers[1])
    rest = _BALANCERS.sub(" ", rest)
    if (quantity := _QUANTITY.search(rest)) is not None:
        found["quantity"] = _number(quantity[1] or quantity[2])
    if region := _region(rest):
        found["region"] = region
    if plan := _plan(rest):
        found["plan"] = plan
    return found


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    """The last match that is not negated: who corrects himself says the right one last."""
    found = [match for match in pattern.finditer(text) if not _negated(text, match.start())]
    return (found[-1][1] if pattern.groups else found[-1][0]) if found else None


def _negated(text: str, at: int) -> bool:
    return _NOT.search(text[:at]) is not None


def _number(word: str) -> int:
    if word.lower() in _NUMBERS:
        return _NUMBERS[word.lower()]
    plain = re.sub(r"[,_]", "", word.lower())
    if "^" in plain:
        base, power = plain.split("^", 1)
        return int(base) ** min(int(power), 18)
    return int(float(plain)) if re.fullmatch(r"[-+]?\d+(\.\d+)?(e\d{1,2})?", plain) else -1


def _region(text: str) -> str | None:
    """The region that a text names, typing errors forgiven; what is called a region and is none, as it is."""
    found: str | None = None
    for match in re.finditer(
        r"\b([a-z]{2,3})[\s_-]?(west|north|east|south|[a-z]{3,6})(?:-?\d)?\b", text, re.IGNORECASE
    ):
        near = get_close_matches(f"{match[1]}-{match[2]}".lower(), REGIONS, n=1, cutoff=0.85)
        if near and not _negated(text, match.start()):
            found = near[0]
    if found is None and (named := _REGION_AFTER.search(text)):
        found = named[1].strip().lower().replace(" ", "-")
    return found


def _plan(text: str) -> str | None:
    """The plan that a text names, typing errors forgiven; what is called a plan and is none, as it is."""
    found: str | None = None
    for match in re.finditer(r"[a-z]+", text, re.IGNORECASE):
        near = get_close_matches(match[0].lower(), PLANS, n=1, cutoff=0.8)
        if near and not _negated(text, match.start()):
            found = near[0]
    if found is None and (named := _PLAN_AFTER.search(text)):
        word = (named[1] or named[2]).lower()
        found = None if word in {"new", "hosted", "whole", "nice", "cloud"} else word
    return found
