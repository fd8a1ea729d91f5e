"""A log of a few sagas on SQLite, and how to write to it, tamper with it and verify it."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from countermand.saga.audit.chain import Receipt
from countermand.saga.audit.entries import (
    CloseEntry,
    DecisionEntry,
    Entry,
    OutcomeEntry,
    ResidualEntry,
    StepEntry,
    VerdictEntry,
    digest,
)
from countermand.saga.audit.findings import Verification
from countermand.saga.audit.heads import published
from countermand.saga.audit.keys import KEYRING_FILE, create_development_key, read_keyring
from countermand.saga.audit.log import HEADS_FILE, LOG_FILE, AuditLog
from countermand.saga.audit.reader import read_log
from countermand.saga.audit.verify import verify
from countermand.saga.types import Effect, Outcome, SagaState

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)


def order(saga_id: str) -> list[Entry]:
    """The six entries of an order that was placed."""
    args = digest({"customer": "ada@example.org", "sku": "TEA-1", "saga": saga_id})
    key, tool, agent = f"{saga_id}:1", "authorize", "agent:billing"
    return [
        DecisionEntry(seq=1, time=NOON, actor=agent, model="stub", prompt=digest("one tea, please")),
        VerdictEntry(
            seq=2, time=NOON, actor="guard", step_no=1, tool=tool, args=args, rule="allowlist", verdict="allowed"
        ),
        StepEntry(
            seq=3, time=NOON, actor="executor", step_no=1, key=key, tool=tool, effect=Effect.COMPENSABLE, args=args
        ),
        OutcomeEntry(
            seq=4, time=NOON, actor="executor", step_no=1, key=key, outcome=Outcome.DONE, result=digest({"id": "pay_1"})
        ),
        DecisionEntry(seq=5, time=NOON, actor=agent, model="stub", prompt=digest("authorized")),
        CloseEntry(seq=6, time=NOON, actor="executor", state=SagaState.COMMITTED),
    ]


def done_by_hand(saga_id: str, operator: str = "grace") -> list[Entry]:
    """An operator's decision on a residual, which comes long after the saga's end."""
    return [
        ResidualEntry(
            seq=1,
            time=NOON,
            actor=f"operator:{operator}",
            step_no=1,
            key=f"{saga_id}:1",
            tool="authorize",
            decision="done_by_hand",
            reason=digest("refunded at the bank's counter"),
        )
    ]


@dataclass(frozen=True)
class Trail:
    """An audit in a folder."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / LOG_FILE

    def append(self, saga_id: str, entries: list[Entry]) -> Receipt:
        """Append as a process of its own would."""
        with closing(AuditLog.in_folder(self.folder)) as log:
            return log.append(saga_id, entries)

    def tamper(self, *statements: str) -> None:
        """Change the database behind the log's back."""
        connection = sqlite3.connect(self.path)
        with connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()

    def verify(self, *, with_heads: bool = False) -> Verification:
        heads = published(self.folder / HEADS_FILE) if with_heads else ()
        with read_log(self.path) as reader:
            return verify(reader, read_keyring(self.folder / KEYRING_FILE), heads)


@pytest.fixture
def new_trail(tmp_path: Path) -> Callable[[str], Trail]:
    def make(name: str) -> Trail:
        create_development_key(tmp_path / name)
        return Trail(tmp_path / name)

    return make


@pytest.fixture
def trail(new_trail: Callable[[str], Trail]) -> Trail:
    """Ten sagas, s0 to s9; the third has an amendment, so that eleven receipts stand."""
    made = new_trail("trail")
    with closing(AuditLog.in_folder(made.folder)) as log:
        for number in range(10):
            log.append(f"s{number}", order(f"s{number}"))
        log.append("s3", done_by_hand("s3"))
    return made
