"""Faults: what goes wrong, at which operation, when. They are kept in the database, so they survive a restart."""

import random
from http import HTTPStatus
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from sqlalchemy import or_, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from countermand.tools.world.database import Base
from countermand.tools.world.errors import Refusal, missing
from countermand.tools.world.idempotency import RATE_LIMITED, Reply, refusal_reply
from countermand.tools.world.models.common import Frozen

WIRE_KINDS = ("hang", "drop", "reset")
"""Kinds after which no answer comes."""

_OTHER_KINDS = (*WIRE_KINDS, "slow", "decline")


def _check_kind(kind: str) -> str:
    status = kind.removeprefix("http_")
    known = {str(code.value) for code in HTTPStatus if code >= HTTPStatus.BAD_REQUEST}
    if kind not in _OTHER_KINDS and (status == kind or status not in known):
        raise ValueError(f"{kind[:40]!r} is none of http_NNN (an error status), {', '.join(_OTHER_KINDS)}")
    return kind


class FaultRequest(Frozen):
    """A fault to be set.

    It is due at the ``nth`` matching call after it was set (each, if not given), fires at most ``times`` times (once if
    ``nth`` is given), and of the calls at which it is due it takes the share ``probability``, drawn from ``seed``.
    ``before``: the call has no effect. ``after``: it has its effect, and the answer is spoilt. With a ``key``, only
    calls under that idempotency key match.
    """

    operation: str
    key: str | None = Field(default=None, max_length=255)
    kind: Annotated[str, AfterValidator(_check_kind)]
    effect: Literal["before", "after"] = "before"
    nth: int | None = Field(default=None, ge=1)
    times: int | None = Field(default=None, ge=1)
    probability: float = Field(default=1.0, gt=0, le=1)
    seed: int = 0
    delay_s: float = Field(default=1.0, ge=0, le=3600, description="How long slow waits.")
    retry_after_s: int | None = Field(default=None, ge=0, description="Header of an http_NNN answer; 1 for a 429.")


class Fault(FaultRequest):
    """A fault that is set. ``seen`` counts the matching calls, ``fired`` those that it spoilt."""

    id: int
    seen: int
    fired: int

    def reply(self) -> Reply:
        """The answer that the fault gives."""
        status = 402 if self.operation.startswith("payments.") else 409
        if self.kind == "decline" and status == HTTPStatus.PAYMENT_REQUIRED:
            message = "The card was declined. Use another card."
            refusal = Refusal(402, "card_declined", message, type="card_error", decline_code="declined_by_fault")
        elif self.kind == "decline":
            refusal = Refusal(409, "declined_by_fault", f"{self.operation}: declined.")
        else:
            status = int(self.kind.removeprefix("http_"))
            refusal = Refusal(status, "fault", f"{HTTPStatus(status).phrase}.", type="api_error")
        pause = self.retry_after_s
        if pause is None and status == RATE_LIMITED:
            pause = 1
        headers = {} if pause is None else {"Retry-After": str(pause)}
        return refusal_reply(refusal).model_copy(update={"headers": headers})


class FaultRow(Base, kw_only=True):
    """A fault that is set."""

    __tablename__ = "faults"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True, init=False)
    operation: Mapped[str] = mapped_column(index=True)
    key: Mapped[str | None]
    kind: Mapped[str]
    effect: Mapped[str]
    nth: Mapped[int | None]
    times: Mapped[int | None]
    probability: Mapped[float]
    seed: Mapped[int]
    delay_s: Mapped[float]
    retry_after_s: Mapped[int | None]
    seen: Mapped[int] = mapped_column(default=0)
    fired: Mapped[int] = mapped_column(default=0)


def add(session: Session, request: FaultRequest) -> Fault:
    """Set a fault."""
    row = FaultRow(**request.model_dump())
    session.add(row)
    session.flush()
    return Fault.model_validate(row)


def remove(session: Session, fault_id: int) -> None:
    """Take a fault away."""
    row = session.get(FaultRow, fault_id)
    if row is None:
        raise missing("fault", str(fault_id))
    session.delete(row)


def listed(session: Session) -> list[Fault]:
    """All faults that are set, oldest first."""
    return [Fault.model_validate(row) for row in session.scalars(select(FaultRow).order_by(FaultRow.id))]


def operations(session: Session) -> set[str]:
    """The operations that have a fault."""
    return set(session.scalars(select(FaultRow.operation)))


def due(session: Session, operation: str, key: str) -> Fault | None:
    """The fault that this call to an operation meets: the oldest that is due. All that match count the call."""
    met: FaultRow | None = None
    matching = (FaultRow.operation == operation, or_(FaultRow.key.is_(None), FaultRow.key == key))
    for row in session.scalars(select(FaultRow).where(*matching).order_by(FaultRow.id)):
        row.seen += 1
        if met is None and _is_due(row):
            row.fired += 1
            met = row
    return Fault.model_validate(met) if met else None


def _is_due(row: FaultRow) -> bool:
    times = row.times or (1 if row.nth else None)
    if (times is not None and row.fired >= times) or row.seen < (row.nth or 1):
        return False
    # A generator of its own per call: the draw is the same whatever else was called, and after a restart.
    return random.Random(f"{row.seed}:{row.seen}").random() < row.probability  # noqa: S311 - not a secret
