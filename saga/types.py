"""The words of a saga as types: calls, steps, outcomes, causes, reports. Frozen; they cross every boundary."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue

ResultT = TypeVar("ResultT", bound=BaseModel)

ID_PATTERN = r"^[A-Za-z0-9._-]{1,64}$"
"""Ids of sessions, batches and lines."""


JsonObject = dict[str, JsonValue]
"""A model, dumped to JSON's types."""


class Frozen(BaseModel):
    """Base of every value that crosses a boundary: immutable, and strict about what it is given."""

    model_config = ConfigDict(frozen=True, extra="forbid")


_DIGITS = {
    **dict.fromkeys(("bif", "clp", "djf", "gnf", "isk", "jpy", "kmf", "krw", "pyg", "rwf", "ugx", "uyi", "vnd"), 0),
    **dict.fromkeys(("vuv", "xaf", "xof", "xpf"), 0),
    **dict.fromkeys(("bhd", "iqd", "jod", "kwd", "lyd", "omr", "tnd"), 3),
}
"""Digits of the minor unit, by ISO 4217; all other currencies have two."""


def in_major_units(amount: int, currency: str) -> str:
    """An amount in minor units as people write it."""
    digits = _DIGITS.get(currency, 2)
    return f"{amount / 10**digits:,.{digits}f} {currency.upper()}"


class Money(Frozen):
    """An amount in integer minor units of a currency (ISO 4217, lower case)."""

    amount: int = Field(ge=0)
    currency: str = Field(pattern=r"^[a-z]{3}$")

    def __str__(self) -> str:
        return in_major_units(self.amount, self.currency)


class Limit(Frozen):
    """At most so many, at most for so much money; None sets no limit."""

    count: int | None = Field(default=None, ge=0)
    money: Money | None = None


class Effect(StrEnum):
    """What a tool does to the world."""

    READ = "read"
    COMPENSABLE = "compensable"
    IRREVERSIBLE = "irreversible"


class Outcome(StrEnum):
    """What a forward call came to. ``REFUSED``: certainly no effect. ``UNKNOWN``: it may have had its effect."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Compensation(StrEnum):
    """How far the undo of a step is. ``NOOP``: there was nothing to undo."""

    NONE = "none"
    PENDING = "pending"
    DONE = "done"
    NOOP = "noop"
    FAILED = "failed"


class SagaState(StrEnum):
    """Where a saga stands; the last three are final."""

    OPEN = "open"
    COMPENSATING = "compensating"
    COMMITTED = "committed"
    COMPENSATED = "compensated"
    NEEDS_ATTENTION = "needs_attention"


class CauseKind(StrEnum):
    """Why a saga was rolled back."""

    REFUSED = "refused"
    UNAVAILABLE = "unavailable"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    TERMINATED = "terminated"
    REVOKED = "revoked"
    ABORTED = "aborted"
    NOT_COMMITTED = "not_committed"
    LIMIT = "limit"
    MODEL = "model"
    INVALID = "invalid"
    BUG = "bug"


class Cause(Frozen):
    """Why a saga was rolled back, and at which step if one caused it."""

    kind: CauseKind
    step_no: int | None = None
    message: str


class ToolCall(Frozen):
    """The context of one call to a tool, its undo or its probe.

    ``key`` is the idempotency key to send downstream; ``step_key`` names the step: for a forward call both are
    ``<saga id>:<step_no>``, for an undo ``key`` is ``<step_key>:undo``. Never derived from run id or attempt.
    """

    saga_id: str
    step_no: int = Field(ge=1)
    key: str
    attempt: int = Field(default=1, ge=1)
    session: str | None = None
    agent: str | None = None
    rule: str = Field(default="plan", description="The guard's rule that let the call pass.")

    @property
    def step_key(self) -> str:
        """The idempotency key of the forward call."""
        return f"{self.saga_id}:{self.step_no}"


class Undone(Frozen):
    """What a compensation did: ``effective`` is false when there was nothing (any more) to undo."""

    effective: bool
    detail: str = ""


class ProbeAnswer(StrEnum):
    """Did the call with this key land?"""

    LANDED = "landed"
    NOT_LANDED = "not_landed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Probed(Generic[ResultT]):
    """A probe's answer; ``result`` is the forward call's result when it landed."""

    answer: ProbeAnswer
    result: ResultT | None = None


class Standing(StrEnum):
    """How an effect stands. ``PASSED_ON``: a later call took it over, as a capture does with a hold."""

    STANDS = "stands"
    PASSED_ON = "passed_on"


class ListedEffect(Frozen):
    """An effect of a tool as its provider lists it now; what was undone is not listed."""

    key: str = Field(description="The forward call's idempotency key.")
    kind: str
    id: str
    amount: int | None = Field(default=None, description="Minor units of the currency, where money is held or taken.")
    currency: str | None = None
    status: Standing = Standing.STANDS
    args: JsonObject = Field(default={}, description="The forward call's arguments, as far as the provider tells.")


class StepReport(Frozen):
    """One step as the world outside the executor sees it."""

    no: int
    key: str
    agent: str | None
    tool: str
    outcome: Outcome | None = Field(description="None while the call runs.")
    compensation: Compensation
    undo_no: int | None = Field(description="Counts the undos in their order.")


class Residual(Frozen):
    """An effect that stands although its saga did not commit."""

    step_no: int
    key: str
    tool: str
    message: str


class ApprovalRequest(Frozen):
    """A call that waits for a person. It is bound to exactly this call by its ``digest``."""

    id: str = Field(description="The step's key.")
    tool: str
    agent: str | None
    args: JsonObject
    digest: str = Field(description="sha256: of the tool's name and the arguments, as RFC 8785 JSON.")
    rule: str = Field(description="The guard's rule that asks.")
    cost: Money | None
    undo: str = Field(description="What undoing the call would do, in words.")
    expires: datetime


class SagaReport(Frozen):
    """A saga's ledger as its users see it; the ``saga`` object of ``countermand chat --json``."""

    id: str
    state: SagaState
    cause: Cause | None = None
    cancelled: bool = False
    steps: tuple[StepReport, ...] = ()
    residuals: tuple[Residual, ...] = ()
    approvals: tuple[ApprovalRequest, ...] = Field(default=(), description="The calls that wait for a person now.")


class SagaOptions(Frozen):
    """How a saga runs; travels in the workflow's start input.

    ``visibility`` upserts the search attribute ``SagaState``, which recovery needs; switch it off only where the
    server does not know the attribute (the time-skipping test server hangs on it). ``audit`` hands what was decided and
    done to the audit log, where a worker serves one.
    """

    max_attempts: int = Field(default=3, ge=1, le=100)
    visibility: bool = True
    audit: bool = False


class CallPolicy(Frozen):
    """Time-outs and retries of one activity."""

    start_to_close: timedelta = timedelta(seconds=10)
    initial_interval: timedelta = timedelta(milliseconds=200)
    maximum_interval: timedelta = timedelta(seconds=5)
    max_attempts: int | None = Field(default=None, description="None: the saga's option for forward calls.")
