"""Little words that any conversation has: numbers, yes and no, taking back, and words that are nearly others."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

_UNITS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_VALUES = (
    {word: value for value, word in enumerate(re.findall(r"\w+", _UNITS))}
    | {word: 10 * ten for ten, word in enumerate(re.findall(r"\w+", _TENS), start=2)}
    | {"couple": 2, "both": 2, "pair": 2, "single": 1}
)
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}

_WORD = "|".join([*_VALUES, *_SCALES])
NUMBER = rf"""(?:(?:minus\s+)?(?<![a-wyz\d._])[-+]?\d(?:[\d,._]{{0,30}}\d)?(?:\^\d+|e\d+)?(?!(?!x\b)[a-z]|-?\d)
    | (?:minus\s+)?(?:half\s+a\s+)?(?:a\s+)?\b(?:{_WORD})\b(?:[\s-]+(?:{_WORD})\b)*(?:\s+of)?)"""
"""A number in digits or in words, for a verbose pattern."""


def pattern(text: str) -> re.Pattern[str]:
    """A verbose pattern for which upper and lower case are alike."""
    return re.compile(text, re.IGNORECASE | re.VERBOSE)


_LOOK_UP = pattern(r"\b(?:look\s*up|resolves?\s+to|txt\s+record|dns\s+(?:record|answer|entry))\b")

_READ_MAIL = pattern(r"\b(?:read|check)\b[^.?!]*\b(?:e-?mails?|mails?|inbox)\b")


def vocabulary(text: str) -> frozenset[str]:
    """The words of a text, in lower case and without apostrophes."""
    return frozenset(re.findall(r"[a-z]+", re.sub("['\N{RIGHT SINGLE QUOTATION MARK}]", "", text.lower())))


def number(said: str) -> int | str:
    """What a number means; one that is not whole stays as it was said, so that it can be told to be none."""
    plain = re.sub(r"^minus\s+", "-", said.strip().lower().rstrip(".,_"))
    if plain.lstrip("-")[:1].isalpha():
        return _in_words(plain)
    plain = re.sub(r",(?=\d{3}\b)|_", "", plain)
    if match := re.fullmatch(r"([-+]?\d{1,18})(?:(\^|e)(\d{1,2}))?", plain):
        base, sign, power = int(match[1]), match[2], int(match[3] or 1)
        return base * 10**power if sign == "e" else base**power
    return said.strip()


def _in_words(plain: str) -> int:
    total = part = 0
    for word in re.findall(r"[a-z]+", plain):
        if word in _SCALES:
            part = max(part, 1) * _SCALES[word]
            if word not in {"dozen", "hundred"}:
                total, part = total + part, 0
        else:
            part += _VALUES.get(word, 0)
    value = total + part
    if re.search(r"\bhalf\s+a\b", plain):
        value //= 2
    return -value if plain.startswith("-") else value


def nearest(word: str, choices: Sequence[str], *, cutoff: float) -> str | None:
    """The choice that a mistyped word is nearest to; None if none is near, or two are equally."""
    scored = sorted(((SequenceMatcher(None, word, choice).ratio(), choice) for choice in choices), reverse=True)
    best, second = [*scored, (0.0, ""), (0.0, "")][:2]
    return best[1] if best[0] >= cutoff and best[0] > second[0] else None


_YES = pattern(
    r"""\b(yes|yep|yeah|yup|y|sure|ok|okay|alright|all\s+right|go\s+ahead|go\s+for\s+it|please\s+do|do\s+(?:it|so|that)|
    place\s+(?:it|(?:the|this|that|my)\s+order)|confirm(?:ed)?|sounds?\s+(?:good|great)|looks?\s+(?:good|great)|perfect|
    that'?s\s+(?:right|fine|good|correct)|agreed?|proceed|(?:buy|order|accept|take)\s+(?:it|that)|deal|absolutely|
    definitely|certainly|of\s+course)\b"""
)
_BESIDE_YES = vocabulary(
    """
    a again ahead all am and as at by charge card everything fine for go good great happy i id im in is it just
    let lets like make me much my now of on one order please proceed pay plan place quote quoted ready right so
    take than thank thanks that thats the then this to token us use very want with works would you your
    environment region host name load balancer balancers
    """
)
_AGAIN = pattern(
    r"^\W*(?:please\s+|ok\s+|yes\s+|let'?s\s+|just\s+)*(?:try|do|place|order)?\s*(?:(?:it|that|this)\s+)?(?:again|retry)\W*$"
)
_NO = pattern(r"^\W*(no|nope|nah|not|don'?t|do\s+not|hold|stop|wait)\b")
_PRICE = pattern(r"\b(how\s+much|(?:what|which)\b[^.!]*\b(?:cost|price)s?|(?:just|only)\s+(?:a\s+)?quote)\b")
_REFUSES = pattern(r"\b(?:don'?t|do\s+not|never)\s+(?:order|place|buy|reserve|provision|charge|set\s+up)\b")
_DROP = pattern(
    r"""^\W*(?:(?:no|please|oh|ok|actually|well|sorry)[\s,.]+)*(?:let'?s\s+)?
    (?:cancel|never\s*mind|forget\s+(?:it|that|the\s+order|about)|drop\s+(?:it|that|the\s+order)|scrap\s+(?:it|that|the\s+order))\b"""
)

_UNDO = r"(?:cancel|undo|revoke|countermand|reverse|withdraw|rescind|roll\s+back|take\s+back)"
_MADE = r"(?:placed|made|bought|ordered|confirmed|did|gave)"
_TAKE_BACK = pattern(
    rf"""\b{_UNDO}\b(?:\s+\w+){{0,3}}?\s+(?:order|purchase|it|that|what)\b[^.?!]*\b(?:just|{_MADE}|earlier|now)\b
    | \b{_UNDO}\b\s+(?:my|the|that|our)\s+(?:last|latest|previous|recent|earlier|placed)\s+(?:order|purchase)\b
    | \btake\s+(?:it|that|(?:the|my|that)\s+order)\b[^.?!]*\bback\b"""
)
_TAKE_BACK_SHORT = pattern(rf"\b{_UNDO}\s+(?:it|that|this|everything|(?:the|my|that|this|our)\s+(?:whole\s+)?order)\b")
_NOT_TAKE_BACK = pattern(
    rf"\b(?:don'?t|do\s+not|never|not|how|what|why|when|if|whether)\b[^.!]*\b(?:{_UNDO}|take)\b | \#\w*\d"
)


_CORRECTS = pattern(
    r"\b(?:no|nope|wait|sorry|actually|rather|i\s+mean|i\s+meant|make\s+(?:it|that)|scratch\s+that|correction|oops)\b"
)
_BARE = pattern(NUMBER)
_STRAY = pattern(
    rf"""(?<!before\s)(?<!until\s)(?<!after\s)(?<!since\s)(?<!by\s)(?<!at\s)(?<!on\s)(?<!\w)(?!one\b){NUMBER}
    (?!\s*(?:am|pm|o'?clock|%|st|nd|rd|th|seconds?|minutes?|hours?|days?|weeks?|months?|years?|users?|people)\b)"""
)
_THE_ONE = pattern(r"\b(?:the|an?|this|that|which)\s+one\b")
_BESIDE_NUMBER = vocabulary(
    """
    a actually and at for in on the with i instead just lets make it mean meant no of ones only oops please
    rather say sorry thanks them then to wait
    """
)


def corrects(text: str) -> bool:
    """Whether somebody corrects himself in these words."""
    return bool(_CORRECTS.search(text))


def bare_number(rest: str) -> int | str | None:
    """The one number that words, or the last correction in them, are about; None if they are about more."""
    said = _THE_ONE.sub(" ", " ".join(rest.split()))
    said = _CORRECTS.split(said)[-1]
    numbers = _BARE.findall(said)
    beside = vocabulary(_BARE.sub(" ", said))
    return number(numbers[0]) if len(numbers) == 1 and beside <= _BESIDE_NUMBER else None


def stray_number(rest: str) -> bool:
    """Whether a number is left over that is no time or date, and may so be a count."""
    return bool(_STRAY.search(_THE_ONE.sub(" ", " ".join(rest.split()))))


def confirms(rest: str) -> bool:
    """Whether a message, without the order's own details, says yes and nothing else."""
    beside = _YES.sub(" ", rest)
    return bool(_YES.search(rest)) and not re.search(r"[?\d]", beside) and vocabulary(beside) <= _BESIDE_YES


def retries(text: str) -> bool:
    """Whether a message asks for the same again and for nothing else."""
    return bool(_AGAIN.search(text))


def declines(text: str) -> bool:
    """Whether a message says no, or not yet."""
    return bool(_NO.search(text)) or drops(text)


def drops(text: str) -> bool:
    """Whether a message gives up what was talked about."""
    return bool(_DROP.search(text))


def asks_about_name(text: str) -> bool:
    """Whether it is asked what a host name answers: no order, though it names a host."""
    return _LOOK_UP.search(text) is not None


def asks_for_mail(text: str) -> bool:
    """Whether it is asked what somebody wrote: no order, though it names an address."""
    return _READ_MAIL.search(text) is not None


def asks_price(text: str) -> bool:
    """Whether a message wants to know what something costs, and no more."""
    return bool(_PRICE.search(text))


def refuses(text: str) -> bool:
    """Whether a message forbids to order what it names."""
    return bool(_REFUSES.search(text))


def takes_back(text: str, *, placed: bool) -> bool:
    """Whether a message takes an order back that was placed; after one was, few words are enough."""
    wanted = _TAKE_BACK.search(text) or (placed and _TAKE_BACK_SHORT.search(text))
    return bool(wanted) and not _NOT_TAKE_BACK.search(text)
