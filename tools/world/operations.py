"""What an operation of the world is: a name, a request, and a plain function that runs in one transaction."""

import hashlib
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, TypeVar, cast

from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.orm import Session

from countermand.tools.world.database import ThingRow
from countermand.tools.world.errors import missing
from countermand.tools.world.ledger import Direction, LedgerRow, Standing
from countermand.tools.world.models.common import Frozen, Money, Page, Paging, Undo
from countermand.tools.world.settings import Settings

BodyT = TypeVar("BodyT", bound=BaseModel)
ModelT = TypeVar("ModelT", bound=BaseModel)
RowT = TypeVar("RowT", bound=ThingRow)


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call to an operation, inside its transaction. ``now`` is in seconds since the epoch."""

    session: Session
    operation: str
    key: str
    now: float
    settings: Settings
    in_flight: AbstractSet[tuple[str, str]]

    @property
    def provider(self) -> str:
        """The provider that is called."""
        return self.operation.partition(".")[0]

    def record(self, direction: Direction, kind: str, identity: str, money: Money | None = None) -> None:
        """Write the call's effect into the ledger."""
        self.session.add(
            LedgerRow(
                at=self.now,
                provider=self.provider,
                operation=self.operation,
                kind=kind,
                id=identity,
                key=self.key,
                direction=direction,
                amount=money.amount if money else None,
                currency=money.currency if money else None,
            )
        )


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A named operation. ``undoes`` names the operations whose effects it undoes."""

    name: str
    method: Literal["GET", "POST"]
    effect: bool
    body: type[BaseModel]
    run: Callable[[Call, BaseModel], BaseModel]
    undoes: tuple[str, ...] = ()

    @property
    def provider(self) -> str:
        """The provider it belongs to; idempotency keys are scoped by it."""
        return self.name.partition(".")[0]

    @property
    def path(self) -> str:
        """Where it is served."""
        return "/" + self.name.replace(".", "/")


@dataclass(frozen=True, kw_only=True)
class Provider:
    """A provider: its operations, its tables, its standing effects, and what it does as time passes."""

    name: str
    operations: tuple[Operation, ...]
    tables: Callable[[Session], BaseModel]
    standing: Callable[[Session], list[Standing]]
    settle: Callable[[Call], None]


class OperationInfo(Frozen):
    """An operation as ``GET /operations`` lists it. ``fenced``: a call that comes after its undo is refused."""

    name: str
    method: str
    path: str
    effect: bool
    undone_by: list[str]
    fenced: bool


def effect(
    name: str, body: type[BodyT], run: Callable[[Call, BodyT], BaseModel], *, undoes: tuple[str, ...] = ()
) -> Operation:
    """An operation that has an effect: ``POST`` under an idempotency key."""
    return Operation(name=name, method="POST", effect=True, body=body, run=_erase(run), undoes=undoes)


def read(
    name: str,
    body: type[BodyT],
    run: Callable[[Call, BodyT], BaseModel],
    *,
    method: Literal["GET", "POST"] = "GET",
) -> Operation:
    """An operation without effect; its request travels as query parameters, or as the body of a ``POST``."""
    return Operation(name=name, method=method, effect=False, body=body, run=_erase(run))


def _erase(run: Callable[[Call, BodyT], BaseModel]) -> Callable[[Call, BaseModel], BaseModel]:
    # A table of operations holds many request types; the endpoint validates against the very model named here.
    def erased(call: Call, body: BaseModel) -> BaseModel:
        return run(call, cast("BodyT", body))

    return erased


def thing_id(prefix: str, call: Call) -> str:
    """An id for what a call makes: derived from its key, so that a repeated run gives the same ids."""
    digest = hashlib.sha256(f"{call.operation} {call.key}".encode()).hexdigest()
    return f"{prefix}_{digest[:20]}"


def by_id(call: Call, row: type[RowT], kind: str, identity: str) -> RowT:
    """The thing with this id, or the refusal that there is none."""
    found = call.session.scalar(select(row).where(row.id == identity))
    if found is None:
        raise missing(kind, identity)
    return found


def to_undo(call: Call, row: type[RowT], kind: str, undo: Undo) -> RowT | None:
    """The thing that an undo names; None when the call with that key never made one."""
    if undo.id is not None:
        return by_id(call, row, kind, undo.id)
    return call.session.scalar(select(row).where(row.key == undo.original_key))


def page(call: Call, row: type[RowT], kind: str, model: type[ModelT], paging: Paging) -> Page[ModelT]:
    """One page of things, oldest first."""
    query = select(row).order_by(row.seq).limit(paging.limit + 1)
    if paging.after is not None:
        query = query.where(row.seq > by_id(call, row, kind, paging.after).seq)
    rows = call.session.scalars(query).all()
    shown = rows[: paging.limit]
    return Page[ModelT](
        data=[model.model_validate(found) for found in shown],
        next=shown[-1].id if len(rows) > paging.limit else None,
    )
