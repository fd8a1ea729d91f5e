"""Exports and proofs, judged by the independent verifier of docs/, which shares no code with what wrote them."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from countermand.saga.audit.errors import AuditError
from countermand.saga.audit.export import export, prove
from countermand.saga.audit.keys import KEYRING_FILE
from countermand.saga.audit.log import AuditLog
from countermand.saga.audit.reader import read_log

from .conftest import Trail

VERIFIER = Path(__file__).parents[3] / "docs" / "verify_audit.py"


def exported(trail: Trail) -> list[str]:
    with read_log(trail.path) as reader:
        return list(export(reader))


def proven(trail: Trail, saga_id: str) -> list[str]:
    with read_log(trail.path) as reader:
        return list(prove(reader, saga_id))


def judged(trail: Trail, lines: Iterable[str]) -> tuple[int, str]:
    """The independent verifier's exit code, and its findings or its summary."""
    file = trail.folder / "exported.jsonl"
    file.write_text("\n".join(lines) + "\n")
    ran = subprocess.run(
        [sys.executable, "-I", str(VERIFIER), str(file), str(trail.folder / KEYRING_FILE)],
        check=False,
        capture_output=True,
        text=True,
    )
    return ran.returncode, ran.stderr.strip() or ran.stdout.strip()


def test_an_export_is_verified_by_a_script_that_knows_none_of_this_code(trail: Trail) -> None:
    assert judged(trail, exported(trail)) == (0, "11 of the log's 11 receipts, 0 faults")


def test_an_outsider_verifies_one_sagas_receipts_and_sees_no_other(trail: Trail) -> None:
    lines = proven(trail, "s3")
    assert judged(trail, lines) == (0, "2 of the log's 11 receipts, 0 faults")
    assert "s4:1" not in "".join(lines)


def test_the_script_finds_an_edited_entry(trail: Trail) -> None:
    head, line, *rest = proven(trail, "s3")
    edited = line.replace("committed", "compensated")
    assert edited != line
    assert judged(trail, [head, edited, *rest]) == (
        1,
        "line 2, saga s3, receipt 1: the entries are not those that were signed",
    )


def test_the_script_finds_a_receipt_that_is_not_in_the_log(trail: Trail) -> None:
    head, first, second = proven(trail, "s3")
    moved = json.loads(first) | {"leaf": 4}
    code, findings = judged(trail, [head, json.dumps(moved), second])
    assert (code, findings) == (1, "line 2, saga s3, receipt 1: the receipt is not in the log that the head signs")


def test_the_script_finds_a_receipt_that_was_left_out(trail: Trail) -> None:
    head, _, second = proven(trail, "s3")
    code, findings = judged(trail, [head, second])
    assert (code, findings) == (
        1,
        "line 2, saga s3, receipt 2: the receipt does not follow the saga's receipt before it",
    )


def test_the_script_finds_an_edited_head(trail: Trail) -> None:
    head, *rest = proven(trail, "s3")
    code, findings = judged(trail, [head.replace("2026", "2025"), *rest])
    assert (code, findings) == (1, "the head's signature does not hold")


def test_the_script_called_wrongly_says_how() -> None:
    ran = subprocess.run([sys.executable, "-I", str(VERIFIER)], check=False, capture_output=True, text=True)
    assert ran.returncode == 2
    assert "usage:" in ran.stderr


def test_a_saga_that_the_log_does_not_know_is_not_proven(trail: Trail) -> None:
    with pytest.raises(AuditError, match="knows no saga 'nobody'"):
        proven(trail, "nobody")


def test_an_empty_log_exports_nothing(trail: Trail) -> None:
    (trail.folder / "audit.db").unlink()
    AuditLog.in_folder(trail.folder).close()
    with pytest.raises(AuditError, match="the audit log is empty"):
        exported(trail)
