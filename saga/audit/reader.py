"""Reading the log as it stands: nothing here believes what it reads."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, and_, false, func, or_, select

from countermand.saga.audit.chain import TreeHead
from countermand.saga.audit.database import EntryRow, HeadRow, LogTables, NodeRow, ReceiptRow, open_database, reading
from countermand.saga.audit.errors import AuditError
from countermand.saga.audit.merkle import (
    Lookup,
    Node,
    Range,
    consistency_ranges,
    inclusion_ranges,
    nodes_of,
    range_hash,
)

_LEAVES_AT_ONCE = 1000


class StoredReceipt(NamedTuple):
    """A receipt's row: its canonical JSON, and what the row itself says of it."""

    saga: str
    n: int
    content: str
    body: str


class Leaf(NamedTuple):
    """A leaf as stored: its receipt (None where it is gone) and the records by their numbers."""

    number: int
    receipt: StoredReceipt | None
    records: tuple[tuple[int, str], ...]


class LogReader:
    """Reads a log in one transaction: what it tells belongs together, however many append meanwhile."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def head(self) -> TreeHead | None:
        """The latest signed head; None when the log is empty."""
        body = self._connection.scalar(select(HeadRow.body).order_by(HeadRow.size.desc()).limit(1))
        return None if body is None else TreeHead.model_validate_json(body)

    def heads(self) -> Iterator[tuple[int, str]]:
        """All stored heads by size."""
        rows = self._connection.execute(select(HeadRow.size, HeadRow.body).order_by(HeadRow.size))
        yield from rows.yield_per(_LEAVES_AT_ONCE)

    def nodes(self) -> Iterator[tuple[int, int, bytes]]:
        """All stored nodes: level, index, hash."""
        rows = self._connection.execute(select(NodeRow.level, NodeRow.index, NodeRow.hash))
        yield from rows.yield_per(_LEAVES_AT_ONCE)

    def leaves(self) -> Iterator[Leaf]:
        """All leaves in order, also those of which only records are left."""
        after: int | None = None
        more = True
        while more:
            page = select(ReceiptRow.leaf).order_by(ReceiptRow.leaf).limit(_LEAVES_AT_ONCE)
            found = self._connection.scalars(page if after is None else page.where(ReceiptRow.leaf > after)).all()
            more = len(found) == _LEAVES_AT_ONCE
            last = found[-1] if more else None
            yield from self._between(after, last)
            after = last

    def most_leaves(self) -> int:
        """More leaves than receipts and heads there can't be: a leaf numbered higher is none of this log's."""
        receipts = self._connection.scalar(select(func.count()).select_from(ReceiptRow)) or 0
        return receipts + (self._connection.scalar(select(func.count()).select_from(HeadRow)) or 0)

    def of_saga(self, saga_id: str) -> list[Leaf]:
        """The saga's leaves, the first receipt first."""
        found = self._connection.scalars(
            select(ReceiptRow.leaf).where(ReceiptRow.saga == saga_id).order_by(ReceiptRow.n)
        ).all()
        return [leaf for index in found for leaf in self._between(index - 1, index)]

    def node(self, node: Node) -> bytes | None:
        """A stored node."""
        level, index = node
        return self._connection.scalar(select(NodeRow.hash).where(NodeRow.level == level, NodeRow.index == index))

    def inclusion(self, leaf: int, size: int) -> list[bytes]:
        """The proof that the leaf is in the tree of that size, nearest sibling first."""
        return self._hashes(inclusion_ranges(leaf, size))

    def consistency(self, first: int, second: int) -> list[bytes]:
        """The proof that the tree of the first size is a prefix of the second's."""
        return self._hashes(consistency_ranges(first, second))

    def _between(self, after: int | None, last: int | None) -> Iterator[Leaf]:
        """The leaves after the one up to the other; None: from the first, to the end."""
        rows = select(ReceiptRow.leaf, ReceiptRow.saga, ReceiptRow.n, ReceiptRow.content, ReceiptRow.body)
        entries = select(EntryRow.leaf, EntryRow.seq, EntryRow.body).order_by(EntryRow.leaf, EntryRow.seq)
        if after is not None:
            rows, entries = rows.where(ReceiptRow.leaf > after), entries.where(EntryRow.leaf > after)
        if last is not None:
            rows, entries = rows.where(ReceiptRow.leaf <= last), entries.where(EntryRow.leaf <= last)
        receipts = {
            leaf: StoredReceipt(saga, n, content, body)
            for leaf, saga, n, content, body in self._connection.execute(rows)
        }
        records: dict[int, list[tuple[int, str]]] = {}
        for leaf, seq, body in self._connection.execute(entries):
            records.setdefault(leaf, []).append((seq, body))
        for number in sorted(receipts.keys() | records.keys()):
            yield Leaf(number, receipts.get(number), tuple(records.get(number, ())))

    def _hashes(self, ranges: list[Range]) -> list[bytes]:
        lookup = lookup_of(self._connection, [node for leaves in ranges for node in nodes_of(leaves)])
        return [range_hash(leaves, lookup) for leaves in ranges]


@contextmanager
def read_log(where: str | Path) -> Generator[LogReader]:
    """Open a log by path (SQLite) or SQLAlchemy URL.

    Raises:
        AuditError: There is none.
    """
    engine = open_database(where, LogTables, create=False)
    try:
        with reading(engine) as connection:
            yield LogReader(connection)
    finally:
        engine.dispose()


def lookup_of(connection: Connection, wanted: Iterable[Node]) -> Lookup:
    """The wanted nodes, fetched at once."""
    # Not `(level, index) IN (...)`: SQLite scans the whole table for it.
    each = (and_(NodeRow.level == level, NodeRow.index == index) for level, index in wanted)
    rows = connection.execute(select(NodeRow.level, NodeRow.index, NodeRow.hash).where(or_(false(), *each)))
    found = {(level, index): kept for level, index, kept in rows}

    def lookup(node: Node) -> bytes:
        try:
            return found[node]
        except KeyError:
            raise AuditError(f"the log lacks its node {node}: run `countermand audit verify`") from None

    return lookup
