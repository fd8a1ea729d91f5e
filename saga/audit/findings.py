"""What a verification finds, each with its place."""

from enum import StrEnum

from countermand.saga.types import Frozen


class FindingKind(StrEnum):
    """What was found."""

    ENTRY_EDITED = "entry_edited"
    ENTRY_DELETED = "entry_deleted"
    ENTRY_INSERTED = "entry_inserted"
    ENTRIES_SWAPPED = "entries_swapped"
    STEP_WITHOUT_VERDICT = "step_without_verdict"
    RECEIPT_MISSING = "receipt_missing"
    RECEIPT_BROKEN = "receipt_broken"
    BAD_SIGNATURE = "bad_signature"
    UNKNOWN_KEY = "unknown_key"
    RETIRED_KEY = "retired_key"
    TREE_EDITED = "tree_edited"
    HEAD_MISMATCH = "head_mismatch"
    HEAD_MISSING = "head_missing"
    CUT_OFF = "cut_off"
    ROLLED_BACK = "rolled_back"
    FORK = "fork"
    ABSENT_FROM_LOG = "absent_from_log"
    STATE_DIFFERS = "state_differs"


class Finding(Frozen):
    """One thing that is wrong. ``receipt`` and ``entry`` count from 1 in their saga, ``leaf`` from 0 in the log."""

    kind: FindingKind
    message: str
    saga: str | None = None
    receipt: int | None = None
    entry: int | None = None
    leaf: int | None = None
    size: int | None = None

    @property
    def place(self) -> str:
        """Where, in words."""
        parts = {
            "saga": self.saga,
            "receipt": self.receipt,
            "entry": self.entry,
            "leaf": self.leaf,
            "head of size": self.size,
        }
        return ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None) or "the log"


class Verification(Frozen):
    """What was verified and found; ``ok`` when nothing is wrong.

    ``closed`` tells the states in which the log says that each saga ended, for the comparison with Temporal.
    """

    receipts: int
    size: int
    root: str
    development_keys: tuple[str, ...]
    findings: tuple[Finding, ...]
    closed: dict[str, frozenset[str]]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings
