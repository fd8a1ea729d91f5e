"""Judging one leaf: the records against the receipt, the receipt against its key, the steps against their verdicts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from pydantic import TypeAdapter, ValidationError

from countermand.saga.audit.chain import Receipt, Signed, chain_head, content_hash, sha256
from countermand.saga.audit.entries import ApprovalEntry, Entry, OutcomeEntry, StepEntry, VerdictEntry
from countermand.saga.audit.errors import AuditError
from countermand.saga.audit.findings import Finding, FindingKind
from countermand.saga.audit.keys import Keyring
from countermand.saga.audit.reader import Leaf, StoredReceipt
from countermand.saga.types import Outcome

_ENTRY: TypeAdapter[Entry] = TypeAdapter(Entry)


class Judged(NamedTuple):
    """A readable receipt and its entries; none of them when something is wrong with them."""

    receipt: Receipt
    entries: tuple[Entry, ...]


KeyFault = Literal[FindingKind.UNKNOWN_KEY, FindingKind.RETIRED_KEY, FindingKind.BAD_SIGNATURE]


def key_fault(statement: Signed, leaf: int, keyring: Keyring) -> tuple[KeyFault, str] | None:
    """What is wrong with a signature made when the leaf was appended, if anything."""
    key = keyring.find(statement.key)
    if key is None:
        return FindingKind.UNKNOWN_KEY, f"signed with {statement.key}, which the keyring does not trust"
    if not key.signed(statement.signed_bytes(), statement.signature):
        return FindingKind.BAD_SIGNATURE, f"the signature is not {statement.key}'s: it was edited after it was signed"
    if not key.holds_for(leaf):
        until = "on" if key.until is None else f"to {key.until - 1}"
        return FindingKind.RETIRED_KEY, f"signed with {key.id}, which is trusted only from leaf {key.since} {until}"
    return None


def judge(
    stored: StoredReceipt, records: Sequence[tuple[int, str]], leaf: int, keyring: Keyring
) -> tuple[Judged | None, list[Finding]]:
    """The receipt with its entries, if it can be read at all, and what is wrong with them."""
    broken = Finding(
        kind=FindingKind.RECEIPT_BROKEN,
        message="the receipt is not readable",
        saga=stored.saga,
        receipt=stored.n,
        leaf=leaf,
    )
    try:
        receipt = Receipt.model_validate_json(stored.body)
    except ValidationError:
        return None, [broken]
    found: list[Finding] = []

    def find(kind: FindingKind, message: str, entry: int | None = None) -> None:
        found.append(broken.model_copy(update={"kind": kind, "message": message, "entry": entry}))

    fault = key_fault(receipt, leaf, keyring)
    if fault:
        find(*fault)
    if (stored.saga, stored.n, stored.content) != (receipt.saga, receipt.n, content_hash(receipt.digests)):
        find(FindingKind.RECEIPT_BROKEN, f"its row is not filed as saga {receipt.saga!r}, receipt {receipt.n}")
    if chain_head(receipt.saga, receipt.n, receipt.previous, receipt.digests) != receipt.head:
        find(FindingKind.RECEIPT_BROKEN, "its chain does not end in its head")
    for difference in _differences(receipt.digests, records):
        find(*difference)
    if found:
        return Judged(receipt, ()), found
    try:
        entries = read_entries(body for _, body in records)
    except ValidationError:
        find(FindingKind.RECEIPT_BROKEN, "a newer version wrote an entry that this one cannot read")
        return Judged(receipt, ()), found
    for seq, message in _steps_without_verdict(entries):
        find(FindingKind.STEP_WITHOUT_VERDICT, message, seq)
    return Judged(receipt, entries), found


def read_leaf(leaf: Leaf) -> Judged:
    """What a leaf says, whether or not it can be trusted.

    Raises:
        AuditError: It cannot be read.
    """
    try:
        if leaf.receipt is not None:
            receipt = Receipt.model_validate_json(leaf.receipt.body)
            return Judged(receipt, read_entries(body for _, body in leaf.records))
    except ValidationError:
        pass
    raise AuditError(f"leaf {leaf.number} cannot be read: run `countermand audit verify`")


def read_entries(bodies: Iterable[str]) -> tuple[Entry, ...]:
    """Records as entries.

    Raises:
        pydantic.ValidationError: One is no entry.
    """
    return tuple(_ENTRY.validate_json(body) for body in bodies)


def _differences(signed: Sequence[str], records: Sequence[tuple[int, str]]) -> Iterator[tuple[FindingKind, str, int]]:
    """How the records differ from the digests that were signed, each difference with the entry's number."""
    kept = {seq: sha256(body.encode()) for seq, body in records}
    expected = dict(enumerate(signed, start=1))
    if kept == expected:
        return
    gone = Counter(signed) - Counter(kept.values())
    new = Counter(kept.values()) - Counter(signed)
    for seq in sorted(expected.keys() | kept.keys()):
        was, now = expected.get(seq), kept.get(seq)
        if was == now:
            continue
        lost, strange = was is not None and gone[was] > 0, now is not None and new[now] > 0
        if lost and strange:
            yield FindingKind.ENTRY_EDITED, "the entry is not the one that was signed", seq
        elif lost:
            yield FindingKind.ENTRY_DELETED, "the entry that was signed here is gone", seq
        elif strange:
            yield FindingKind.ENTRY_INSERTED, "the entry was never signed", seq
        elif not gone and not new:
            origin = next((number for number, digest in expected.items() if digest == now), None)
            yield FindingKind.ENTRIES_SWAPPED, f"the entry here was signed as entry {origin}", seq


def _ran_unapproved(entries: Sequence[Entry]) -> set[int]:
    """Steps that ran before anybody had approved them; whether they had to be, their verdicts say."""
    approved: set[int] = set()
    ran: set[int] = set()
    for entry in entries:
        if isinstance(entry, ApprovalEntry):
            (approved.add if entry.granted else approved.discard)(entry.step_no)
        elif isinstance(entry, OutcomeEntry) and entry.outcome is not Outcome.REFUSED:
            ran |= {entry.step_no} - approved
    return ran


def _steps_without_verdict(entries: Sequence[Entry]) -> Iterator[tuple[int, str]]:
    """Steps that ran without the guard's leave (I12)."""
    verdicts: dict[int | None, VerdictEntry] = {}
    unapproved = _ran_unapproved(entries)
    for entry in entries:
        match entry:
            case VerdictEntry():
                verdicts[entry.step_no] = entry
            case StepEntry():
                verdict = verdicts.get(entry.step_no)
                step = f"step {entry.step_no} ({entry.tool})"
                if verdict is None or (verdict.tool, verdict.args) != (entry.tool, entry.args):
                    yield entry.seq, f"{step} ran, but the guard gave no verdict on these arguments"
                elif verdict.verdict == "refused":
                    yield entry.seq, f"{step} ran, but the guard refused it by {verdict.rule}"
                elif verdict.verdict == "needs_approval" and entry.step_no in unapproved:
                    yield entry.seq, f"{step} ran, but nobody approved it as {verdict.rule} asks"
            case _:
                pass
