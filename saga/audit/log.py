"""Appending to the log: one leaf a receipt, one signed head an append, idempotent by saga and content."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, insert, select

from countermand.saga.audit.chain import (
    Receipt,
    TreeHead,
    canonical,
    content_hash,
    record,
    seal_head,
    seal_receipt,
    sha256,
)
from countermand.saga.audit.database import EntryRow, HeadRow, LogTables, NodeRow, ReceiptRow, open_database, writing
from countermand.saga.audit.entries import Entry, SagaEntries
from countermand.saga.audit.heads import publish
from countermand.saga.audit.keys import Signer, load_signer
from countermand.saga.audit.merkle import completed_by, leaf_hash, nodes_of, range_hash
from countermand.saga.audit.reader import lookup_of
from countermand.saga.audit.salts import Salts

LOG_FILE = "audit.db"
SALTS_FILE = "audit-salts.db"
HEADS_FILE = "audit-heads.jsonl"


class AuditLog:
    """The writer's end of a log. Several processes may hold one each: appends wait for one another.

    Args:
        where: Path (SQLite) or SQLAlchemy URL; made when absent.
        salts: Where the salts are.
        signer: Signs receipts and heads.
        heads: Where to publish each head, if anywhere: best on a medium that this process can only append to.
    """

    def __init__(self, where: str | Path, *, salts: Salts, signer: Signer, heads: Path | None = None) -> None:
        self._engine = open_database(where, LogTables, create=True)
        self._salts = salts
        self._signer = signer
        self._heads = heads

    @classmethod
    def in_folder(cls, folder: Path) -> "AuditLog":
        """The embedded log: everything in one folder, whose key must exist."""
        signer = load_signer(folder)
        return cls(folder / LOG_FILE, salts=Salts(folder / SALTS_FILE), signer=signer, heads=folder / HEADS_FILE)

    def append(self, saga_id: str, entries: Sequence[Entry]) -> Receipt:
        """Append a saga's entries and return their receipt; blocks for a few milliseconds.

        The same entries again give the receipt that they have; other entries of the same saga amend it by a further
        receipt, which names the one before.

        Raises:
            pydantic.ValidationError: No entries, or not numbered from 1.
            AuditError: The log lacks a part of itself.
        """
        batch = SagaEntries(saga_id=saga_id, entries=tuple(entries))
        salt = self._salts.find_or_make(saga_id)
        records = [record(entry, salt) for entry in batch.entries]
        digests = [sha256(body) for body in records]
        content = content_hash(digests)
        with writing(self._engine) as connection:
            known = connection.execute(
                select(ReceiptRow.content, ReceiptRow.body).where(ReceiptRow.saga == saga_id).order_by(ReceiptRow.n)
            ).all()
            for row in known:
                if row.content == content:
                    return Receipt.model_validate_json(row.body)
            now = datetime.now(UTC)
            previous = sha256(known[-1].body.encode()) if known else None
            receipt = seal_receipt(saga_id, len(known) + 1, previous, digests, time=now, signer=self._signer)
            leaf = _size(connection)
            body = canonical(receipt)
            connection.execute(
                insert(ReceiptRow).values(leaf=leaf, saga=saga_id, n=receipt.n, content=content, body=body.decode())
            )
            connection.execute(
                insert(EntryRow),
                [{"leaf": leaf, "seq": seq, "body": text.decode()} for seq, text in enumerate(records, start=1)],
            )
            head = self._grow(connection, leaf, leaf_hash(body), now)
        if self._heads is not None:
            publish(self._heads, head)
        return receipt

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()
        self._salts.close()

    def _grow(self, connection: Connection, leaf: int, hashed: bytes, now: datetime) -> TreeHead:
        kept = lookup_of(connection, nodes_of((0, leaf)))
        fresh = dict(completed_by(leaf, hashed, kept))
        connection.execute(
            insert(NodeRow),
            [{"level": level, "index": index, "hash": value} for (level, index), value in fresh.items()],
        )
        root = range_hash((0, leaf + 1), lambda node: fresh[node] if node in fresh else kept(node))
        head = seal_head(leaf + 1, root, time=now, signer=self._signer)
        connection.execute(insert(HeadRow).values(size=head.size, body=canonical(head).decode()))
        return head


def _size(connection: Connection) -> int:
    return connection.scalar(select(HeadRow.size).order_by(HeadRow.size.desc()).limit(1)) or 0
