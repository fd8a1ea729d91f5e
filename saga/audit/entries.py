"""The audit's entries, as a saga's workflow keeps them: who decided, which tool, the verdict, what came of it."""

import hashlib
import hmac
from typing import Annotated, Literal

import rfc8785
from pydantic import (
    AwareDatetime,
    BaseModel,
    Field,
    JsonValue,
    PlainSerializer,
    SerializationInfo,
    StringConstraints,
    model_validator,
)

from countermand.saga.types import CauseKind, Compensation, Effect, Frozen, Outcome, SagaState


def digest(value: BaseModel | JsonValue) -> str:
    """The canonical digest of a value: ``sha256:`` and the SHA-256 of its RFC 8785 JSON, in hexadecimal.

    Raises:
        rfc8785.CanonicalizationError: The value is no I-JSON: NaN, an integer beyond 2**53, a lone surrogate.
    """
    plain: JsonValue = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    return "sha256:" + hashlib.sha256(rfc8785.dumps(plain)).hexdigest()


def salted(value: str, salt: bytes) -> str:
    """A canonical digest as the log keeps it: keyed with the saga's salt (HMAC-SHA-256, RFC 2104)."""
    return "hmac-sha256:" + hmac.new(salt, value.encode(), hashlib.sha256).hexdigest()


def proves(value: BaseModel | JsonValue, kept: str, salt: bytes) -> bool:
    """Whether ``value`` is what the log's ``kept`` digest stands for; who holds the data and the salt can tell."""
    return hmac.compare_digest(salted(digest(value), salt), kept)


def _with_salt(value: str, info: SerializationInfo[bytes | None]) -> str:
    return value if info.context is None else salted(value, info.context)


Salted = Annotated[
    str, StringConstraints(pattern=r"^(hmac-)?sha256:[0-9a-f]{64}$"), PlainSerializer(_with_salt, return_type=str)
]
"""A value that may be personal or secret: the workflow keeps its ``digest``; dumped with a salt as the context, it is
``salted``, and so it is read back. History holds the data anyway; the log must not be guessable, and a plain digest of
a phone number is."""

Actor = Annotated[
    str,
    StringConstraints(pattern=r"^((agent|operator):[A-Za-z0-9._-]{1,64}|customer|executor|guard|janitor)$"),
]
"""Who did it. An operator is named by an account, never by an e-mail address."""

RuleName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:/-]{1,128}$")]
"""A rule's name, never a sentence: a sentence may quote what a customer wrote."""


class EntryBase(Frozen):
    """What every entry says: ``seq`` counts from 1 in what one workflow hands over, ``time`` is workflow time."""

    seq: int = Field(ge=1)
    time: AwareDatetime
    actor: Actor


class DecisionEntry(EntryBase):
    """An agent (the actor) decided: its model read the prompt and gave the reply."""

    kind: Literal["decision"] = "decision"
    model: str
    prompt: Salted
    reply: Salted | None = None


class VerdictEntry(EntryBase):
    """The guard judged a call before it became a step, or none (I12).

    ``step_no`` is None where it became none: it was refused, or acts on the saga itself. ``tool`` is empty where none
    has the name that the model made up: that, too, may quote what a customer wrote.
    """

    kind: Literal["verdict"] = "verdict"
    step_no: int | None = Field(default=None, ge=1)
    tool: str
    args: Salted
    rule: RuleName
    verdict: Literal["allowed", "refused", "needs_approval"]


class ApprovalEntry(EntryBase):
    """A person agreed to a step, or did not."""

    kind: Literal["approval"] = "approval"
    step_no: int = Field(ge=1)
    granted: bool
    reason: Salted | None = None


class StepEntry(EntryBase):
    """A step was registered; its call may have an effect from here on."""

    kind: Literal["step"] = "step"
    step_no: int = Field(ge=1)
    key: str
    tool: str
    effect: Effect
    args: Salted


class OutcomeEntry(EntryBase):
    """What a step's forward call came to."""

    kind: Literal["outcome"] = "outcome"
    step_no: int = Field(ge=1)
    key: str
    outcome: Outcome
    result: Salted | None = None


class UndoEntry(EntryBase):
    """What a step's compensation came to; ``undo_no`` counts the undos in their order."""

    kind: Literal["undo"] = "undo"
    step_no: int = Field(ge=1)
    undo_no: int = Field(ge=1)
    key: str
    compensation: Compensation


class RecoveryEntry(EntryBase):
    """A saga whose workflow ran no code at its end was found, and is ended for it."""

    kind: Literal["recovery"] = "recovery"
    closed_as: Literal["terminated", "timed_out", "failed", "canceled"]
    found: SagaState


class ResidualEntry(EntryBase):
    """An effect was left standing, or an operator decided what becomes of it; giving up needs a reason."""

    kind: Literal["residual"] = "residual"
    step_no: int = Field(ge=1)
    key: str
    tool: str
    decision: Literal["left", "retry", "done_by_hand", "give_up"]
    reason: Salted | None = None

    @model_validator(mode="after")
    def _giving_up_is_explained(self) -> "ResidualEntry":
        if self.decision == "give_up" and self.reason is None:
            raise ValueError("reason: giving up a residual needs one")
        return self


class RevokeEntry(EntryBase):
    """Somebody countermanded a committed saga."""

    kind: Literal["revoke"] = "revoke"
    reason: Salted | None = None


class CloseEntry(EntryBase):
    """The saga ended, or was ended anew by a recovery, a revoke, a decision on a residual."""

    kind: Literal["close"] = "close"
    state: Literal[SagaState.COMMITTED, SagaState.COMPENSATED, SagaState.NEEDS_ATTENTION]
    cancelled: bool = False
    cause: CauseKind | None = None
    cause_step: int | None = None
    message: Salted | None = None


Entry = Annotated[
    DecisionEntry
    | VerdictEntry
    | ApprovalEntry
    | StepEntry
    | OutcomeEntry
    | UndoEntry
    | RecoveryEntry
    | ResidualEntry
    | RevokeEntry
    | CloseEntry,
    Field(discriminator="kind"),
]


class SagaEntries(Frozen):
    """What a workflow hands to the append activity: a saga's entries, in order."""

    saga_id: str = Field(min_length=1, max_length=256)
    entries: tuple[Entry, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _numbered_from_one(self) -> "SagaEntries":
        for place, entry in enumerate(self.entries, start=1):
            if entry.seq != place:
                raise ValueError(f"entries: entry {place} of saga {self.saga_id!r} says seq {entry.seq}")
        return self
