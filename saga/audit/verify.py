"""Verifying a log offline, against trusted keys, published heads, and what Temporal remembers."""

from collections.abc import Iterable, Mapping

from pydantic import ValidationError

from countermand.saga.audit.chain import Receipt, TreeHead, sha256
from countermand.saga.audit.entries import CloseEntry
from countermand.saga.audit.findings import Finding, FindingKind, Verification
from countermand.saga.audit.judge import judge, key_fault
from countermand.saga.audit.keys import Keyring
from countermand.saga.audit.merkle import EMPTY_ROOT, Tree, leaf_hash
from countermand.saga.audit.reader import Leaf, LogReader
from countermand.saga.types import SagaState


def verify(reader: LogReader, keyring: Keyring, published: Iterable[TreeHead] = ()) -> Verification:
    """Verify all of a log.

    Without published heads, a log that was cut off together with its own heads, or set back as a whole, is a valid
    shorter log: only a head that its writer could not take back shows it.
    """
    check = _Check(reader, keyring)
    for leaf in reader.leaves():
        check.leaf(leaf)
    check.heads()
    check.nodes()
    check.published(published)
    return Verification(
        receipts=check.receipts,
        size=check.tree.size,
        root=check.tree.root(check.tree.size).hex(),
        development_keys=tuple(sorted(key for key in check.keys if key.startswith("development-"))),
        findings=tuple(check.findings),
        closed={saga: frozenset(states) for saga, states in check.closed.items()},
    )


def reconcile(closed: Mapping[str, frozenset[str]], sagas: Iterable[tuple[str, SagaState]]) -> list[Finding]:
    """What Temporal remembers (saga id and final state) and the log does not say.

    A saga that only the log knows is no finding: Temporal forgets after its retention.
    """
    found: list[Finding] = []
    for saga, state in sagas:
        states = closed.get(saga)
        if states is None:
            message = f"Temporal knows the saga as {state}, the log does not know it"
            found.append(Finding(kind=FindingKind.ABSENT_FROM_LOG, message=message, saga=saga))
        elif state.value not in states:
            message = f"Temporal knows the saga as {state}, the log as {' then '.join(sorted(states)) or 'not closed'}"
            found.append(Finding(kind=FindingKind.STATE_DIFFERS, message=message, saga=saga))
    return found


class _Check:
    """One pass over a log."""

    def __init__(self, reader: LogReader, keyring: Keyring) -> None:
        self._reader = reader
        self._keyring = keyring
        self._most_leaves = reader.most_leaves()
        self._latest: dict[str, tuple[int, str]] = {}
        self._roots: dict[int, str] = {}
        self.tree = Tree()
        self.receipts = 0
        self.keys: set[str] = set()
        self.findings: list[Finding] = []
        self.closed: dict[str, set[str]] = {}

    def leaf(self, leaf: Leaf) -> None:
        """Judge a leaf; leaves come in order."""
        left_over = leaf.receipt is None and self._reader.node((0, leaf.number)) is None
        if left_over or not 0 <= leaf.number < self._most_leaves:
            message = "the row is none of this log's leaves: it was put there"
            saga, n = (leaf.receipt.saga, leaf.receipt.n) if leaf.receipt else (None, None)
            self._find(FindingKind.RECEIPT_BROKEN, message, saga=saga, receipt=n, leaf=leaf.number)
            return
        while self.tree.size < leaf.number:
            self._missing(self.tree.size)
        if leaf.receipt is None:
            self._missing(leaf.number)
            return
        self.receipts += 1
        self.tree.append(leaf_hash(leaf.receipt.body.encode()))
        judged, found = judge(leaf.receipt, leaf.records, leaf.number, self._keyring)
        self.findings += found
        if judged is None:
            return
        receipt = judged.receipt
        self.keys.add(receipt.key)
        self._in_sequence(receipt, leaf.number, sha256(leaf.receipt.body.encode()))
        states = self.closed.setdefault(receipt.saga, set())
        states |= {entry.state.value for entry in judged.entries if isinstance(entry, CloseEntry)}

    def heads(self) -> None:
        """Judge the log's own heads: one for each size, each with the root of the leaves so far."""
        held = self.tree.size
        present: set[int] = set()
        fits = True
        for size, body in self._reader.heads():
            present.add(size)
            head = self._readable(size, body)
            if head is None:
                continue
            fault = key_fault(head, size - 1, self._keyring)
            if fault:
                self._find(*fault, size=size)
                continue
            self._roots[size] = head.root
            if fits and size <= held and self.tree.root(size).hex() != head.root:
                fits = False
                message = "the head does not fit the receipts before it: one of them was changed"
                self._find(FindingKind.HEAD_MISMATCH, message, size=size)
        signed = max(self._roots, default=0)
        if signed > held:
            message = f"the log holds {held} receipts, but signed {signed}: the last {signed - held} were cut off"
            self._find(FindingKind.CUT_OFF, message, leaf=held)
        lacking = [size for size in range(1, held + 1) if size not in present]
        if lacking:
            message = f"{len(lacking)} of the {held} heads that this log signed are gone, this one first"
            self._find(FindingKind.HEAD_MISSING, message, size=lacking[0])

    def nodes(self) -> None:
        """Compare the stored tree, from which proofs are made, with the receipts."""
        wrong: list[tuple[int, int]] = []
        count = 0
        for level, index, value in self._reader.nodes():
            count += 1
            exists = level >= 0 and 0 <= index < self.tree.size >> level
            if not exists or self.tree.node((level, index)) != value:
                wrong.append((level, index))
        if wrong:
            level, index = min(wrong)
            message = f"{len(wrong)} stored tree nodes do not fit the receipts, first (level, index) {min(wrong)}"
            self._find(FindingKind.TREE_EDITED, message, leaf=index << level)
        elif count < self.tree.nodes:
            self._find(FindingKind.TREE_EDITED, f"the stored tree lacks {self.tree.nodes - count} nodes")

    def published(self, heads: Iterable[TreeHead]) -> None:
        """Compare the log with heads that were published."""
        held = self.tree.size
        roots: dict[int, str] = {}
        newest: TreeHead | None = None
        forks: list[TreeHead] = []
        for head in heads:
            own = self._roots.get(head.size)
            fault = None if head.root == own else key_fault(head, head.size - 1, self._keyring)
            if fault:
                self._find(fault[0], f"published head: {fault[1]}", size=head.size)
            elif roots.setdefault(head.size, head.root) != head.root:
                forks.append(head)
            elif head.root == own:
                continue
            elif head.size <= held:
                if self.tree.root(head.size).hex() != head.root:
                    forks.append(head)
            elif newest is None or head.size > newest.size:
                newest = head
        if forks:
            first = min(forks, key=lambda head: head.size)
            message = f"another head was published on {first.time:%Y-%m-%d %H:%M}: a writer forked or history changed"
            self._find(FindingKind.FORK, message, size=first.size)
        if newest:
            message = (
                f"the log holds {held} receipts, but {newest.size} were published on {newest.time:%Y-%m-%d %H:%M}: "
                f"the last {newest.size - held} were cut off, or an older backup was restored"
            )
            self._find(FindingKind.ROLLED_BACK, message, leaf=held)

    def _in_sequence(self, receipt: Receipt, leaf: int, body_hash: str) -> None:
        n, previous = self._latest.get(receipt.saga, (0, None))
        self._latest[receipt.saga] = receipt.n, body_hash
        if receipt.n > n + 1:
            message = f"receipts {n + 1} to {receipt.n - 1} of the saga are missing"
            self._find(FindingKind.RECEIPT_MISSING, message, saga=receipt.saga, receipt=n + 1)
        elif (receipt.n, receipt.previous) != (n + 1, previous):
            message = "does not follow the saga's receipt before it"
            self._find(FindingKind.RECEIPT_BROKEN, message, saga=receipt.saga, receipt=receipt.n, leaf=leaf)

    def _missing(self, leaf: int) -> None:
        # The stored hash stands in for the receipt, so that what else fits is not reported too.
        self.tree.append(self._reader.node((0, leaf)) or EMPTY_ROOT)
        self._find(FindingKind.RECEIPT_MISSING, "the log has no receipt here: it was removed", leaf=leaf)

    def _readable(self, size: int, body: str) -> TreeHead | None:
        try:
            head = TreeHead.model_validate_json(body)
        except ValidationError:
            head = None
        if head is None or head.size != size:
            self._find(FindingKind.HEAD_MISMATCH, "the head is not readable as one of this size", size=size)
            return None
        return head

    def _find(
        self,
        kind: FindingKind,
        message: str,
        *,
        saga: str | None = None,
        receipt: int | None = None,
        leaf: int | None = None,
        size: int | None = None,
    ) -> None:
        self.findings.append(Finding(kind=kind, message=message, saga=saga, receipt=receipt, leaf=leaf, size=size))
