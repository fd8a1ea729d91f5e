"""The tamper matrix (I8): each way to falsify the log is found, and named with its place."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from countermand.saga.audit.chain import Receipt, canonical, seal_receipt
from countermand.saga.audit.findings import Finding, FindingKind
from countermand.saga.audit.heads import publish, published
from countermand.saga.audit.keys import KEYRING_FILE, LocalSigner, create_development_key, load_signer, read_keyring
from countermand.saga.audit.log import HEADS_FILE
from countermand.saga.audit.merkle import Tree, leaf_hash
from countermand.saga.audit.verify import reconcile
from countermand.saga.types import SagaState

from .conftest import Trail, order

SWAP_SECOND_AND_THIRD = (
    "update audit_entries set seq = 102 where leaf = 4 and seq = 2",
    "update audit_entries set seq = 2 where leaf = 4 and seq = 3",
    "update audit_entries set seq = 3 where leaf = 4 and seq = 102",
)
INSERT_AFTER_THE_SECOND = (
    "update audit_entries set seq = seq + 100 where leaf = 4 and seq > 2",
    "update audit_entries set seq = seq - 99 where leaf = 4 and seq > 100",
    "insert into audit_entries select leaf, 3, upper(body) from audit_entries where leaf = 4 and seq = 2",
)
MATRIX = {
    "an entry edited": (
        ("update audit_entries set body = replace(body, 'committed', 'compensated') where leaf = 4 and seq = 6",),
        [(FindingKind.ENTRY_EDITED, "saga s4, receipt 1, entry 6, leaf 4")],
    ),
    "an entry deleted": (
        ("delete from audit_entries where leaf = 4 and seq = 2",),
        [(FindingKind.ENTRY_DELETED, "saga s4, receipt 1, entry 2, leaf 4")],
    ),
    "the last entry deleted": (
        ("delete from audit_entries where leaf = 4 and seq = 6",),
        [(FindingKind.ENTRY_DELETED, "saga s4, receipt 1, entry 6, leaf 4")],
    ),
    "an entry inserted": (
        INSERT_AFTER_THE_SECOND,
        [(FindingKind.ENTRY_INSERTED, "saga s4, receipt 1, entry 3, leaf 4")],
    ),
    "an entry repeated": (
        ("insert into audit_entries select leaf, 7, body from audit_entries where leaf = 4 and seq = 6",),
        [(FindingKind.ENTRY_INSERTED, "saga s4, receipt 1, entry 7, leaf 4")],
    ),
    "two entries swapped": (
        SWAP_SECOND_AND_THIRD,
        [
            (FindingKind.ENTRIES_SWAPPED, "saga s4, receipt 1, entry 2, leaf 4"),
            (FindingKind.ENTRIES_SWAPPED, "saga s4, receipt 1, entry 3, leaf 4"),
        ],
    ),
    "the last three receipts cut off": (
        (
            "delete from audit_receipts where leaf >= 8",
            "delete from audit_entries where leaf >= 8",
            'delete from audit_nodes where ("index" + 1) << level > 8',
        ),
        [(FindingKind.CUT_OFF, "leaf 8")],
    ),
    "a whole saga removed": (
        ("delete from audit_receipts where saga = 's4'", "delete from audit_entries where leaf = 4"),
        [(FindingKind.RECEIPT_MISSING, "leaf 4")],
    ),
    "only a saga's first receipt removed": (
        ("delete from audit_receipts where saga = 's3' and n = 1", "delete from audit_entries where leaf = 3"),
        [(FindingKind.RECEIPT_MISSING, "leaf 3"), (FindingKind.RECEIPT_MISSING, "saga s3, receipt 1")],
    ),
    "a receipt filed under another saga": (
        ("update audit_receipts set saga = 'sX' where leaf = 4",),
        [(FindingKind.RECEIPT_BROKEN, "saga sX, receipt 1, leaf 4")],
    ),
    "a receipt made unreadable": (
        ("update audit_receipts set body = '{}' where leaf = 10",),
        [
            (FindingKind.RECEIPT_BROKEN, "saga s3, receipt 2, leaf 10"),
            (FindingKind.HEAD_MISMATCH, "head of size 11"),
            (FindingKind.TREE_EDITED, "leaf 10"),
        ],
    ),
    "a stored tree node edited": (
        ('update audit_nodes set hash = zeroblob(32) where level = 1 and "index" = 2',),
        [(FindingKind.TREE_EDITED, "leaf 4")],
    ),
    "a stored tree node removed": (
        ('delete from audit_nodes where level = 1 and "index" = 2',),
        [(FindingKind.TREE_EDITED, "the log")],
    ),
    "a receipt put where no leaf is": (
        (
            "insert into audit_receipts select 1000000000000, saga, 9, 'x', body from audit_receipts where leaf = 4",
            "insert into audit_receipts select -1, saga, 8, 'y', body from audit_receipts where leaf = 4",
        ),
        [
            (FindingKind.RECEIPT_BROKEN, "saga s4, receipt 8, leaf -1"),
            (FindingKind.RECEIPT_BROKEN, "saga s4, receipt 9, leaf 1000000000000"),
        ],
    ),
    "records without a receipt": (
        ("insert into audit_entries select 11, seq, body from audit_entries where leaf = 4",),
        [(FindingKind.RECEIPT_BROKEN, "leaf 11")],
    ),
    "a head rolled back": (
        ("delete from audit_heads where size > 8",),
        [(FindingKind.HEAD_MISSING, "head of size 9")],
    ),
    "a head edited": (
        ("update audit_heads set body = replace(body, '2026', '2025') where size = 8",),
        [(FindingKind.BAD_SIGNATURE, "head of size 8")],
    ),
    "a head put in another's place": (
        ("update audit_heads set body = (select body from audit_heads where size = 7) where size = 8",),
        [(FindingKind.HEAD_MISMATCH, "head of size 8")],
    ),
}


def places(findings: tuple[Finding, ...]) -> list[tuple[FindingKind, str]]:
    return [(finding.kind, finding.place) for finding in findings]


@pytest.mark.parametrize("case", MATRIX)
def test_tampering_is_found_and_named_with_its_place(trail: Trail, case: str) -> None:
    statements, expected = MATRIX[case]
    assert trail.verify(with_heads=True).ok
    trail.tamper(*statements)
    assert places(trail.verify().findings) == expected


def rewrite(trail: Trail, leaf: int, receipt: Receipt) -> None:
    """Put a receipt in another's place and rebuild the stored tree around it, as an attacker with time would."""
    connection = sqlite3.connect(trail.path)
    with connection:
        connection.execute("update audit_receipts set body = ? where leaf = ?", (canonical(receipt).decode(), leaf))
        tree = Tree()
        for (body,) in connection.execute("select body from audit_receipts order by leaf").fetchall():
            tree.append(leaf_hash(body.encode()))
        for level, index in connection.execute('select level, "index" from audit_nodes').fetchall():
            connection.execute(
                'update audit_nodes set hash = ? where level = ? and "index" = ?',
                (tree.node((level, index)), level, index),
            )
    connection.close()


def receipt_at(trail: Trail, leaf: int) -> Receipt:
    connection = sqlite3.connect(trail.path)
    (body,) = connection.execute("select body from audit_receipts where leaf = ?", (leaf,)).fetchone()
    connection.close()
    return Receipt.model_validate_json(body)


def resealed(receipt: Receipt, signer: LocalSigner) -> Receipt:
    return seal_receipt(receipt.saga, receipt.n, receipt.previous, receipt.digests, time=receipt.time, signer=signer)


def test_a_receipt_signed_anew_with_another_key_is_found(trail: Trail) -> None:
    stranger = LocalSigner(Ed25519PrivateKey.generate())
    rewrite(trail, 4, resealed(receipt_at(trail, 4), stranger))
    assert places(trail.verify().findings) == [
        (FindingKind.UNKNOWN_KEY, "saga s4, receipt 1, leaf 4"),
        (FindingKind.HEAD_MISMATCH, "head of size 5"),
    ]


def test_a_receipt_that_only_claims_the_logs_key_is_found(trail: Trail) -> None:
    real = receipt_at(trail, 4)
    forged = resealed(real, LocalSigner(Ed25519PrivateKey.generate())).model_copy(update={"key": real.key})
    rewrite(trail, 4, forged)
    assert (FindingKind.BAD_SIGNATURE, "saga s4, receipt 1, leaf 4") in places(trail.verify().findings)


def test_a_receipt_rewritten_with_the_logs_own_key_is_found_by_the_heads(trail: Trail) -> None:
    real = receipt_at(trail, 4)
    rewrite(trail, 4, resealed(real.model_copy(update={"digests": real.digests[:-1]}), load_signer(trail.folder)))
    trail.tamper("delete from audit_entries where leaf = 4 and seq = 6")
    found = places(trail.verify().findings)
    assert (FindingKind.HEAD_MISMATCH, "head of size 5") in found


def test_two_writers_that_forked_are_found_by_their_published_heads(
    trail: Trail, new_trail: Callable[[str], Trail]
) -> None:
    twin = new_trail("twin")
    shutil.copytree(trail.folder, twin.folder, dirs_exist_ok=True)
    trail.append("mine", order("mine"))
    twin.append("theirs", order("theirs"))
    assert trail.verify(with_heads=True).ok
    assert twin.verify(with_heads=True).ok
    for head in published(twin.folder / HEADS_FILE):
        publish(trail.folder / HEADS_FILE, head)
    assert places(trail.verify(with_heads=True).findings) == [(FindingKind.FORK, "head of size 12")]


def test_a_log_cut_off_with_its_heads_is_found_by_a_published_head(trail: Trail) -> None:
    trail.tamper(
        "delete from audit_receipts where leaf >= 8",
        "delete from audit_entries where leaf >= 8",
        'delete from audit_nodes where ("index" + 1) << level > 8',
        "delete from audit_heads where size > 8",
    )
    assert trail.verify().ok, "a shorter log is a valid log: this is why heads are published"
    assert places(trail.verify(with_heads=True).findings) == [(FindingKind.ROLLED_BACK, "leaf 8")]


def test_a_database_restored_from_an_older_backup_is_found(trail: Trail, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    shutil.copy(trail.path, backup)
    trail.append("later", order("later"))
    shutil.copy(backup, trail.path)
    (finding,) = trail.verify(with_heads=True).findings
    assert (finding.kind, finding.place) == (FindingKind.ROLLED_BACK, "leaf 11")
    assert "holds 11 receipts, but 12 were published" in finding.message


def test_a_log_that_grew_again_after_a_restore_is_a_fork(trail: Trail, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    shutil.copy(trail.path, backup)
    trail.append("later", order("later"))
    shutil.copy(backup, trail.path)
    trail.append("instead", order("instead"))
    assert places(trail.verify(with_heads=True).findings) == [(FindingKind.FORK, "head of size 12")]


def test_a_published_head_with_a_strangers_signature_is_found(trail: Trail) -> None:
    heads = published(trail.folder / HEADS_FILE)
    publish(trail.folder / HEADS_FILE, heads[-1].model_copy(update={"root": heads[0].root}))
    assert places(trail.verify(with_heads=True).findings) == [(FindingKind.BAD_SIGNATURE, "head of size 11")]


def test_a_key_that_was_rotated_out_signs_nothing_more(trail: Trail) -> None:
    old = load_signer(trail.folder)
    (trail.folder / "audit.key").rename(trail.folder / "retired.key")
    create_development_key(trail.folder, size=11)
    trail.append("after", order("after"))
    assert trail.verify(with_heads=True).ok
    rewrite(trail, 11, resealed(receipt_at(trail, 11), old))
    assert (FindingKind.RETIRED_KEY, "saga after, receipt 1, leaf 11") in places(trail.verify().findings)


def test_a_step_without_the_guards_verdict_is_found(trail: Trail) -> None:
    entries = order("rogue")
    unjudged = [entry.model_copy(update={"seq": seq}) for seq, entry in enumerate([entries[0], *entries[2:]], start=1)]
    trail.append("rogue", unjudged)
    assert places(trail.verify().findings) == [
        (FindingKind.STEP_WITHOUT_VERDICT, "saga rogue, receipt 1, entry 2, leaf 11")
    ]


@pytest.mark.parametrize("verdict", ["refused", "needs_approval"])
def test_a_step_that_ran_against_the_guards_verdict_is_found(trail: Trail, verdict: str) -> None:
    entries = order("rogue")
    entries[1] = entries[1].model_copy(update={"verdict": verdict})
    trail.append("rogue", entries)
    assert places(trail.verify().findings) == [
        (FindingKind.STEP_WITHOUT_VERDICT, "saga rogue, receipt 1, entry 3, leaf 11")
    ]


def test_what_temporal_knows_and_the_log_does_not_is_found(trail: Trail) -> None:
    closed = trail.verify().closed
    committed = SagaState.COMMITTED
    assert reconcile(closed, [("s1", committed), ("s3", committed)]) == []
    found = reconcile(closed, [("s1", SagaState.COMPENSATED), ("s2", committed), ("gone", committed)])
    assert places(tuple(found)) == [(FindingKind.STATE_DIFFERS, "saga s1"), (FindingKind.ABSENT_FROM_LOG, "saga gone")]


def test_a_log_signed_by_a_development_key_says_so(trail: Trail) -> None:
    (key,) = read_keyring(trail.folder / KEYRING_FILE).keys
    assert trail.verify().development_keys == (key.id,)
    assert json.loads((trail.folder / HEADS_FILE).read_text().splitlines()[0])["key"].startswith("development-")
