"""What one message names of an order: plan, region, e-mail, host name, counts and card, typing errors forgiven."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, get_args

from countermand.agents.words import NUMBER, corrects, nearest, number, pattern, vocabulary
from countermand.tools.inventory import Plan, Region

PLANS: tuple[str, ...] = get_args(Plan)
REGIONS: tuple[str, ...] = get_args(Region)

Value = int | str


@dataclass(frozen=True)
class Details:
    """What a message names.

    Attributes:
        values: By field, as it was said and not yet checked.
        several: By field, where more than one value is named and none is taken back.
        denied: By field, the values that are said not to be wanted.
        plural: Counts that are more than one, and no number says how many.
        undecided: Counts that shall be more, fewer, or one of two numbers.
        rest: The message without what was understood of it.
    """

    values: dict[str, Value] = field(default_factory=dict)
    several: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    denied: dict[str, frozenset[Value]] = field(default_factory=dict)
    plural: frozenset[str] = frozenset()
    undecided: frozenset[str] = frozenset()
    rest: str = ""

    def __bool__(self) -> bool:
        return bool(self.values or self.several or self.denied or self.plural or self.undecided)


class _Found(NamedTuple):
    """``value`` is None where a thing is spoken of but its number is not clear."""

    value: Value | None
    start: int
    end: int
    undecided: bool = False


_TOKEN = re.compile(r"[^\s,;<>()\"']+")
_EMAIL_AFTER = pattern(r"\be-?mail(?:\s+address)?\s*(?:is|:|=|to)\s*([^\s,;@]+)")
_HOST_AFTER = pattern(
    r"\b(?:host\s*name|host|domain)\b\s*(?:(?:name|is|to|be|should|it|at|:|=)\s*)*[\"']?([^\s,;\"'?!]+)"
)
_HOST_AT = pattern(r"\bat\s+((?!(?:eu|us|ap)[_-])[a-z0-9_][\w-]{2,})(?=\s*(?:$|[.,;!]|with\b|for\b|and\b|in\b))")
_NO_HOST = vocabulary(
    "all best home it last least let mine most names night noon once one our present that the this work"
)
_CARD = re.compile(r"\btok_[A-Za-z0-9_]+")

_AREAS = {"eu": "eu", "europe": "eu", "us": "us", "usa": "us", "america": "us", "ap": "ap", "apac": "ap", "asia": "ap"}
_AREA = "|".join(_AREAS)
_COMPASS = ("west", "north", "east", "south", "central")
_REGION = pattern(
    rf"""\b(?P<area>{_AREA})(?:[\s-]pacific)?(?P<gap>[\s_-]*)(?P<side>[a-z]{{3,9}}\d*(?:-\w+){{0,3}})\b
    | \b(?P<side2>west|north|east|south|central)(?:ern)?[\s_-]+(?P<area2>{_AREA})\b
    | \bregion\s*(?:is|to|:|=|called|named)?\s+
      (?P<named>(?!(?:{_AREA}|west|north|east|south)\b)[a-z][a-z0-9]*(?:-[a-z0-9]+)*)
    | \bin\s+(?P<other>[a-z]+(?:-[a-z]+)*-\d+)\b"""
)
_NO_REGION = vocabulary("a and are at be but can do for in is it my of or please should the to with would you")

_SIZES = "tiny|big|bigger|biggest|larger|largest|smaller|smallest|huge|giant|gigantic|enormous|micro|mini|nano|xs|x+l"
_PLAN = pattern(
    r"""\b(?:(?P<more>extra|x+(?=-)|double|ultra|super)[\s-]+)?(?P<word>[a-z]+)\b(?!-(?!sized?\b|scale\b))
    (?!\s+(?:pizza|coffee|shirt|question|team|company|business|shop|budget|thing|favou?r|request|problem|issue|amount|
    project|startup|change|correction|typo|mistake|detail)s?\b)"""
)
_PLAN_NAMED = pattern(
    rf"""\b(?:plan|size)\s*(?:is|to|:|=|called|named)\s*([a-z]+)
    | \b({_SIZES})(?=[\s-]+(?:plan|size|environment|cluster|one|machine)|\s*(?:[.,;!]|$))"""
)
_NO_PLAN = vocabulary("shall stall smell lager largo larger largest smaller smallest")

_NOUNS = {
    "load_balancers": r"(?:load[\s-]*bal\w+|lbs?)\b",
    "quantity": r"""(?:(?:machine|node|server|instance|box|cluster|env|envi?r\w*?ment|small|medium|large)(?:e?s)?
        |quantity|qty)\b""",
}
_MANY = re.compile(r"(?:s|quantity|qty)$", re.IGNORECASE)
_MORE = r"\b(?:more|another|additional|fewer|less|extra(?!\s+(?:small|medium|large)))\b"
_TIMES = r"(?:x\b|times\b|\u00d7)"
_BETWEEN = r"(?:(?!and\b|with\b|or\b|plus\b|but\b|in\b|at\b|for\b|load|lbs?\b)[a-z-]+\s+){0,3}?"
_COUNTS = {
    name: pattern(
        rf"""(?P<unsure>(?:{NUMBER}\s+(?:or|to)\s+{NUMBER}|(?<!\d)\d{{1,9}}\s*[-\u2013]\s*\d{{1,9}}(?!\d))\s+{_BETWEEN}{noun}
            | (?:{NUMBER}\s+)?{_MORE}\s+{_BETWEEN}{noun} | {NUMBER}\s*{_BETWEEN}{noun}\s+each\b)
        | (?P<none>\bno\s+(?!small|medium|large)
            |\b(?:without|(?:don'?t|do\s+not)\s+(?:want|need))\s+(?:an?\s+|any\s+)?){noun}
        | (?P<before>{NUMBER})\s*{_TIMES}?\s*{_BETWEEN}{noun}
        | \b(?P<noun>{noun})
          (?:\s*(?:(?:is|to|of|be|should|count|number)\b|[:=(]|{_TIMES}|(?=x\d)x|(?<=quantity)\s|(?<=qty)\s)+\s*(?P<after>{NUMBER}))?"""
    )
    for name, noun in _NOUNS.items()
}

_NOT = pattern(
    r"""\b(?:not|instead\s+of|rather\s+than|no\s+longer|isn'?t|don'?t\s+want|anything\s+but|except)\s+
    (?:(?:at|in|a|an|the|for|to|any)\s+)*$"""
)
_FROM = pattern(r"\bfrom\s+$")
_TO = pattern(r"^\s+to\b")


@lru_cache(maxsize=1024)
def details(message: str) -> Details:
    """The order's details that one message names."""
    text = message
    found: dict[str, list[_Found]] = {}
    # What has its own signs is taken out first, so that no part of it is read as something else.
    for name, reader in (("email", _emails), ("card", _cards), ("hostname", _hosts)):
        found[name] = list(reader(text))
        text = _without(text, found[name])
    found["region"] = list(_regions(text))
    found["plan"] = list(_plans(_without(text, found["region"])))
    for name, counting in _COUNTS.items():
        found[name] = list(_counts(_without(text, found["region"]), counting))
        if name == "load_balancers":
            text = _without(text, found[name])
    return _resolved(message, found, rest=_without(text, [one for many in found.values() for one in many]))


def _resolved(message: str, found: dict[str, list[_Found]], rest: str) -> Details:
    values: dict[str, Value] = {}
    several: dict[str, tuple[Value, ...]] = {}
    denied: dict[str, frozenset[Value]] = {}
    undecided = frozenset(name for name, many in found.items() if any(one.undecided for one in many))
    plural = frozenset(name for name, many in found.items() if any(one.value is None for one in many))
    for name, many in found.items():
        meant = [one for one in many if one.value is not None and not _negated(message, one)]
        refused = frozenset(one.value for one in many if one.value is not None and _negated(message, one))
        if refused:
            denied[name] = refused
        # Who corrects himself says the right one last.
        for before, after in pairwise(list(meant)):
            if before.value != after.value and corrects(message[before.end : after.start]):
                meant = [one for one in meant if one.start >= after.start]
        said = tuple(dict.fromkeys(one.value for one in meant if one.value is not None))
        if len(said) > 1:
            several[name] = said
        elif said:
            values[name] = said[0]
    for name in undecided:
        values.pop(name, None)
    return Details(values, several, denied, plural - values.keys(), undecided, rest)


def _negated(text: str, one: _Found) -> bool:
    before = text[: one.start]
    return bool(_NOT.search(before) or (_FROM.search(before) and _TO.search(text[one.end :])))


def _without(text: str, found: Iterable[_Found]) -> str:
    """The text with what was found in it blanked, all else in its place."""
    for one in found:
        text = text[: one.start] + " " * (one.end - one.start) + text[one.end :]
    return text


def _emails(text: str) -> Iterator[_Found]:
    matches = [match for match in _TOKEN.finditer(text) if "@" in match[0]]
    for match in matches:
        yield _Found(match[0].removeprefix("mailto:").strip(".!?:'\""), *match.span())
    if not matches and (named := _EMAIL_AFTER.search(text)):
        yield _Found(named[1].strip(".!?'\""), *named.span(1))


def _cards(text: str) -> Iterator[_Found]:
    for match in _CARD.finditer(text):
        yield _Found(match[0], *match.span())


def _hosts(text: str) -> Iterator[_Found]:
    """Words with a dot inside, and what is called a host name and is none, as it is."""
    dotted = False
    for match in _TOKEN.finditer(text):
        host = re.sub(r"^https?://", "", match[0].strip(".!?:"), flags=re.IGNORECASE).rstrip("/.").lower()
        labels = host.split(".")
        if len(labels) > 1 and not labels[-1].isdigit() and max(map(len, labels)) > 1:
            dotted = True
            yield _Found(host, *match.span())
    named = None if dotted else _HOST_AFTER.search(text) or _HOST_AT.search(text)
    if named and named[1].lower().rstrip(".") not in _NO_HOST | _NO_REGION:
        yield _Found(named[1].rstrip("."), *named.span(1))


def _regions(text: str) -> Iterator[_Found]:
    """Regions in any wording, and what is called a region and is none, as it is."""
    at = 0
    while match := _REGION.search(text, at):
        name = _region(match)
        # What only looked like a region may hide one: go on inside it.
        at = match.end() if name else match.start() + 1
        if name:
            yield _Found(name, *match.span())


def _region(match: re.Match[str]) -> str | None:
    area, side = match["area"] or match["area2"], (match["side"] or match["side2"] or "").lower()
    if area:
        short = _AREAS[area.lower()]
        side, joined = side.removesuffix("ern"), match["gap"] in {"-", "_"}
        # "us" is also a pronoun: only where it is joined to a word is that word taken for a mistyped one.
        near = nearest(side, _COMPASS, cutoff=0.75) if side.isalpha() and (joined or short != "us") else None
        known = side if side in _COMPASS else near
        if known:
            return f"{short}-{known}"
        return f"{short}-{side}" if joined else None
    word = (match["named"] or match["other"]).lower()
    return None if word in _NO_REGION else word


def _plans(text: str) -> Iterator[_Found]:
    """Plans, and sizes that are none, as they are."""
    for match in _PLAN.finditer(text):
        word = match["word"].lower().removesuffix("s")
        near = word if word in PLANS else None
        if near is None and word not in _NO_PLAN and len(word) > 3:  # noqa: PLR2004 - shorter ones are near anything
            near = nearest(word, [plan for plan in PLANS if plan[0] == word[0]], cutoff=0.8)
        if near:
            yield _Found(f"{match['more']} {near}".lower() if match["more"] else near, *match.span())
    for match in _PLAN_NAMED.finditer(text):
        word = (match[1] or match[2]).lower()
        if match[2] or (not nearest(word, PLANS, cutoff=0.8) and word not in _NO_REGION):
            yield _Found(word, *match.span())


def _counts(text: str, counting: re.Pattern[str]) -> Iterator[_Found]:
    """Numbers of a thing; None where it is spoken of in the plural, or as more or fewer, without one number."""
    for match in counting.finditer(text):
        said = match["before"] or match["after"]
        if match["none"]:
            yield _Found(0, *match.span())
        elif match["unsure"]:
            yield _Found(None, *match.span(), undecided=True)
        elif said:
            yield _Found(number(said), *match.span())
        elif _MANY.search(match["noun"]):
            yield _Found(None, *match.span())
