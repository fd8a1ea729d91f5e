"""Exporting receipts with their proofs as JSON lines, for readers that need none of this code (docs/verify_audit.py).

The first line holds the signed head, each further one a leaf: its receipt, entries, and the proof under that head.
"""

import json
from collections.abc import Callable, Iterable, Iterator

from countermand.saga.audit.chain import TreeHead
from countermand.saga.audit.errors import AuditError
from countermand.saga.audit.merkle import Tree, inclusion_ranges, leaf_hash, range_hash
from countermand.saga.audit.reader import Leaf, LogReader

Proof = list[bytes]


def export(reader: LogReader) -> Iterator[str]:
    """The whole log.

    Raises:
        AuditError: It is empty, or lacks a receipt.
    """
    head = _head(reader)
    tree = Tree()
    for leaf in reader.leaves():
        tree.append(leaf_hash(_body(leaf).encode()))
    return _lines(
        head,
        reader.leaves(),
        lambda leaf: [range_hash(leaves, tree.node) for leaves in inclusion_ranges(leaf, head.size)],
    )


def prove(reader: LogReader, saga_id: str) -> Iterator[str]:
    """The receipts of one saga, for an outsider who sees no other.

    Raises:
        AuditError: The log does not know the saga.
    """
    leaves = reader.of_saga(saga_id)
    if not leaves:
        raise AuditError(f"the audit log knows no saga {saga_id!r}: `countermand audit export` lists them all")
    head = _head(reader)
    return _lines(head, leaves, lambda leaf: reader.inclusion(leaf, head.size))


def _lines(head: TreeHead, leaves: Iterable[Leaf], proof: Callable[[int], Proof]) -> Iterator[str]:
    yield json.dumps({"type": "countermand.export/1", "head": head.model_dump(mode="json")})
    for leaf in leaves:
        yield json.dumps(
            {
                "leaf": leaf.number,
                "receipt": json.loads(_body(leaf)),
                "entries": [json.loads(body) for _, body in leaf.records],
                "proof": [sibling.hex() for sibling in proof(leaf.number)],
            }
        )


def _head(reader: LogReader) -> TreeHead:
    head = reader.head()
    if head is None:
        raise AuditError("the audit log is empty: nothing was run yet")
    return head


def _body(leaf: Leaf) -> str:
    if leaf.receipt is None:
        raise AuditError(f"the log lacks the receipt of leaf {leaf.number}: run `countermand audit verify`")
    return leaf.receipt.body
