"""The append-only ledger: one row for every effect that really happened. Tests judge by it."""

from typing import Literal

from pydantic import BaseModel, ConfigDict
from sqlalchemy import DDL, Select, UniqueConstraint, event, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from countermand.tools.world.database import Base

Direction = Literal["do", "undo"]


class LedgerRow(Base, kw_only=True):
    """One effect. Rows that the provider made of itself (a refund that failed later) have no key."""

    __tablename__ = "ledger"
    __table_args__ = (UniqueConstraint("provider", "key", name="one_effect_per_key"),)

    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=True, init=False)
    at: Mapped[float]
    provider: Mapped[str]
    operation: Mapped[str]
    kind: Mapped[str]
    id: Mapped[str]
    key: Mapped[str | None]
    direction: Mapped[str]
    amount: Mapped[int | None] = mapped_column(default=None)
    currency: Mapped[str | None] = mapped_column(default=None)


for _action in ("UPDATE", "DELETE"):
    event.listen(
        LedgerRow.__table__,
        "after_create",
        DDL(
            f"CREATE TRIGGER ledger_forbids_{_action.lower()} BEFORE {_action} ON ledger "
            "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
        ),
    )


class LedgerEntry(BaseModel):
    """A ledger row as it is shown. ``at`` is in seconds since the epoch, ``amount`` in minor units."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    seq: int
    at: float
    provider: str
    operation: str
    kind: str
    id: str
    key: str | None
    direction: Direction
    amount: int | None
    currency: str | None


class Standing(BaseModel):
    """An effect that stands now. ``amount`` (minor units) and ``currency`` where money is held or taken."""

    model_config = ConfigDict(frozen=True)

    provider: str
    kind: str
    id: str
    key: str
    amount: int | None = None
    currency: str | None = None


def effect_of(session: Session, provider: str, key: str) -> LedgerRow | None:
    """The effect that the call with this key had, if it had one."""
    return session.scalar(_with_key(provider, key))


def entries(session: Session) -> list[LedgerEntry]:
    """The whole ledger, oldest first."""
    return [LedgerEntry.model_validate(row) for row in session.scalars(select(LedgerRow).order_by(LedgerRow.seq))]


def _with_key(provider: str, key: str) -> Select[LedgerRow]:
    return select(LedgerRow).where(LedgerRow.provider == provider, LedgerRow.key == key)
