"""What tools mint anew in each run: ids, addresses, times. Requests that differ in nothing else are the same."""

import re
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from countermand.saga.types import JsonObject

_TOKEN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_:/.+-]*[A-Za-z0-9])?")
_NUMBER = re.compile(r"\d+(\.\d+)?")
_SHORTEST = 8
"""Characters of the shortest id that is taken for one; shorter ones are words, and counted as such."""


def minted(messages: Sequence[JsonObject]) -> dict[str, str]:
    """The ids, addresses and times in tools' answers, each with a name that is the same in every run: its place.

    What the instructions or the customer said is nothing that a tool minted.
    """
    said = {token for message in messages if message["type"] in {"system", "human"} for token in _tokens(message)}
    names: dict[str, str] = {}
    for message in messages:
        for token in _tokens(message) if message["type"] == "tool" else ():
            if token not in said and _looks_minted(token):
                names.setdefault(token, f"<minted {len(names) + 1}>")
    return names


def renamed(value: JsonValue, names: Mapping[str, str]) -> JsonValue:
    """A value with other names in the place of some, wherever they stand."""
    match value:
        case str():
            return _TOKEN.sub(lambda token: names.get(token[0], token[0]), value)
        case list():
            return [renamed(item, names) for item in value]
        case dict():
            return {name: renamed(item, names) for name, item in value.items()}
        case _:
            return value


def _tokens(message: JsonObject) -> list[str]:
    return _TOKEN.findall(str(message.get("content", "")))


def _looks_minted(token: str) -> bool:
    return len(token) >= _SHORTEST and bool(re.search(r"\d", token)) and not _NUMBER.fullmatch(token)
