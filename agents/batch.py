"""A batch: a file of orders, one a line, read and checked whole before the first effect."""

import csv
import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import PurePath
from typing import Annotated, BinaryIO, Literal, cast

from pydantic import Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from countermand.agents.models import ModelUnavailable, check_model_name
from countermand.agents.session import MAX_TEXT
from countermand.saga.errors import CountermandError
from countermand.saga.sensitive import Masked
from countermand.saga.types import ID_PATTERN, Frozen
from countermand.tools.inventory import QuoteOrder

MAX_LINES = 20_000
MAX_LINE_BYTES = 65_536
MAX_FILE_BYTES = 64_000_000
"""What a batch may hold; a longer line is refused by itself, a larger file as a whole."""

MAX_GIVEN = 60
"""Characters of what was given that a refusal repeats."""

_LINE_END = re.compile(r"\r\n|\r|\n")
_CSV_ERRORS = {"unexpected end of data": "a quote that is not closed on its line"}

Form = Literal["jsonl", "csv"]
Record = dict[str, object]


class BatchInvalid(CountermandError):
    """The file is no batch at all; the message says why, and what to do."""


class BadLine(Frozen):
    """A line that can't be run: which, what of it, and why."""

    number: int
    field: str
    reason: str


class Line(Frozen):
    """One line of a batch, checked. ``number`` counts the file's lines from 1."""

    number: int = Field(ge=1)
    id: str = Field(pattern=ID_PATTERN)
    text: Masked
    model: str | None = None
    max_attempts: int | None = None

    @property
    def wants(self) -> tuple[object, ...]:
        """All that a line asks for: lines of the same id must agree in it."""
        return self.text, self.model, self.max_attempts


class Batch(Frozen):
    """What a file holds: the lines that can be run, and those that can't."""

    lines: tuple[Line, ...]
    bad: tuple[BadLine, ...]


class _Common(Frozen):
    id: str | None = Field(default=None, pattern=ID_PATTERN)
    model: str | None = None
    max_attempts: int | None = Field(default=None, ge=1, le=100)


class _FreeText(_Common):
    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_TEXT)]

    def words(self) -> str:
        return self.text


class _Fields(_Common, QuoteOrder):
    def words(self) -> str:
        return (
            f"a {self.plan} environment in {self.region} for {self.email} at {self.hostname}, "
            f"{self.load_balancers} load balancers, {self.quantity} machines"
        )


FIELDS = tuple(dict.fromkeys(("id", "text", *_Fields.model_fields)))
"""What a line may say: ``text``, or the fields of an order; and for both ``id``, ``model`` and ``max_attempts``."""


def read_batch(source: BinaryIO, *, name: str) -> Batch:
    """Read and check a whole file, JSONL or CSV (by its name's ending, else by its first character).

    Raises:
        BatchInvalid: It is empty, binary, too large, or no file of lines; or its CSV header is wrong.
    """
    raw = source.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise BatchInvalid(f"{name}: larger than {MAX_FILE_BYTES:,} bytes: split it into several batches")
    if b"\0" in raw:
        raise BatchInvalid(f"{name}: binary, or UTF-16: save it as UTF-8 text")
    # What is not UTF-8 becomes surrogates, so that one broken line does not hide the others.
    text = raw.decode("utf-8-sig", "surrogateescape")
    reading = _Reading()
    lines = ((number, line) for number, line in enumerate(_LINE_END.split(text), start=1) if line.strip())
    if _form(name, text) == "csv":
        reading.take_csv(lines, name)
    else:
        reading.take_jsonl(lines, name)
    return reading.batch(name)


def _form(name: str, text: str) -> Form:
    match PurePath(name).suffix.lower():
        case ".csv":
            return "csv"
        case ".jsonl" | ".ndjson" | ".json":
            return "jsonl"
        case _:
            return "jsonl" if text.lstrip().startswith(("{", "[")) else "csv"


class _Reading:
    """What was found of a file so far."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._unnamed: set[int] = set()
        self._bad: list[BadLine] = []

    def batch(self, name: str) -> Batch:
        if not self._lines and not self._bad:
            raise BatchInvalid(f"{name}: empty: write one order a line")
        lines = self._distinct()
        if len(lines) > MAX_LINES:
            raise BatchInvalid(f"{name}: {len(lines):,} lines, a batch holds {MAX_LINES:,}: split it")
        return Batch(lines=tuple(lines), bad=tuple(sorted(self._bad, key=lambda bad: bad.number)))

    def take_jsonl(self, lines: Iterable[tuple[int, str]], name: str) -> None:
        for place, (number, line) in enumerate(self._sound(lines)):
            if place == 0 and line.strip() in {"[", "{"}:
                raise BatchInvalid(f"{name}: JSON over several lines: write one object a line (jq -c '.[]' makes that)")
            try:
                record = json.loads(line, object_pairs_hook=_once, parse_constant=_no_number)
            except json.JSONDecodeError as error:
                self._refuse(number, "line", f"not JSON: {error.msg}, at character {error.colno}")
            except (ValueError, RecursionError) as error:
                self._refuse(number, "line", f"not JSON: {error}")
            else:
                if isinstance(record, dict):
                    self._take(number, cast("Record", record), strict=True)
                else:
                    self._refuse(number, "line", "not a JSON object like {...}")

    def take_csv(self, lines: Iterable[tuple[int, str]], name: str) -> None:
        header: list[str] | None = None
        for number, line in self._sound(lines):
            try:
                # Each line by itself: a quote that is never closed must not swallow the lines below it.
                (row,) = csv.reader([line], strict=True)
            except csv.Error as error:
                self._refuse(number, "line", f"not CSV: {_CSV_ERRORS.get(str(error), error)}")
                continue
            if header is None:
                header = _header(row, name)
            elif len(row) != len(header):
                self._refuse(number, "line", f"{len(row)} cells, but the header names {len(header)}")
            elif any(cell.strip() for cell in row):
                self._take(number, {key: cell for key, cell in zip(header, row, strict=True) if cell}, strict=False)

    def _sound(self, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
        """The lines that are text and not too long, with their numbers."""
        for number, line in lines:
            try:
                size = len(line.encode())
            except UnicodeEncodeError as error:
                byte = ord(line[error.start]) - 0xDC00
                self._refuse(number, "line", f"not UTF-8: byte 0x{byte:02x} at character {error.start + 1}")
                continue
            if size > MAX_LINE_BYTES:
                self._refuse(number, "line", f"{size:,} bytes, a line has {MAX_LINE_BYTES:,} at most")
                continue
            yield number, line

    def _take(self, number: int, record: Record, *, strict: bool) -> None:
        kind = _FreeText if "text" in record else _Fields
        try:
            asked = kind.model_validate(record, strict=strict)
            if asked.model:
                _check_model(asked.model)
        except ValidationError as error:
            for one in error.errors():
                self._refuse(number, ".".join(map(str, one["loc"])), _reason(one, record))
            return
        except ModelUnavailable as error:
            self._refuse(number, "model", str(error))
            return
        if asked.id is None:
            self._unnamed.add(number)
        self._lines.append(
            Line(
                number=number,
                id=asked.id or str(number),
                text=asked.words(),
                model=asked.model,
                max_attempts=asked.max_attempts,
            )
        )

    def _refuse(self, number: int, field: str, reason: str) -> None:
        self._bad.append(BadLine(number=number, field=field[:80], reason=" ".join(reason.split())[:300]))

    def _distinct(self) -> list[Line]:
        """One line an id; where lines of an id differ, nobody can tell which is meant, so none is run."""
        by_id: dict[str, list[Line]] = {}
        for line in self._lines:
            by_id.setdefault(line.id, []).append(line)
        distinct: list[Line] = []
        for same in by_id.values():
            numbers = {line.number for line in same}
            if len(same) == 1 or (len({line.wants for line in same}) == 1 and not numbers & self._unnamed):
                distinct.append(same[0])
                continue
            for line in same:
                others = ", ".join(str(number) for number in sorted(numbers - {line.number}))
                why = "has no id but its number" if numbers & self._unnamed else "differs"
                self._refuse(line.number, "id", f"{line.id!r} is also the id of line {others}, and one {why}")
        return distinct


def _header(row: list[str], name: str) -> list[str]:
    header = [cell.strip().lower() for cell in row]
    for cell in header:
        if cell not in FIELDS:
            comma = ", separated by commas" if re.search(r"[;\t]", cell) else ""
            raise BatchInvalid(
                f"{name}: the header names no such field as {cell[:80]!r}; there are {', '.join(FIELDS)}{comma}"
            )
        if header.count(cell) > 1:
            raise BatchInvalid(f"{name}: the header names {cell!r} twice")
    return header


def _once(pairs: Iterable[tuple[str, object]]) -> Record:
    record: Record = {}
    for key, value in pairs:
        if key in record:
            raise ValueError(f"{key[:80]!r} is named twice")
        record[key] = value
    return record


def _no_number(constant: str) -> object:
    raise ValueError(f"{constant} is no number")


def _reason(error: ErrorDetails, record: Record) -> str:
    if error["type"] == "extra_forbidden":
        also = " beside text" if "text" in record else f"; there are {', '.join(FIELDS)}"
        return f"there is no such field{also}"
    if error["type"] == "missing":
        return "missing: give it, or the whole order as text"
    given = f", not {json.dumps(error['input'])}"
    return error["msg"] + (given if len(given) <= MAX_GIVEN else "")


@lru_cache(maxsize=256)
def _check_model(name: str) -> None:
    check_model_name(name)
