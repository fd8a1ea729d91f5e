"""Where two JSON values differ."""

from collections.abc import Iterator

from pydantic import JsonValue


def differences(then: JsonValue, now: JsonValue, path: str = "") -> Iterator[tuple[str, JsonValue, JsonValue]]:
    """Each place where two JSON values differ: its path, and both values."""
    if isinstance(then, dict) and isinstance(now, dict):
        for name in sorted({*then, *now}):
            yield from differences(then.get(name), now.get(name), f"{path}.{name}" if path else name)
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for number, (one, other) in enumerate(zip(then, now, strict=True)):
            # A command's only argument needs no number.
            here = f"{path}[{number}]" if path or len(then) > 1 else ""
            yield from differences(one, other, here)
    elif then != now:
        yield path or "the whole", then, now
