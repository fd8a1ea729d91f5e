"""Inventory: the catalogue, quotes, and stock that is held for somebody."""

from sqlalchemy import select
from sqlalchemy.orm import Mapped, Session, mapped_column
from sqlalchemy.schema import CheckConstraint

from countermand.tools.world import catalogue
from countermand.tools.world.database import Base, ThingRow
from countermand.tools.world.errors import Refusal, missing
from countermand.tools.world.idempotency import probe
from countermand.tools.world.ledger import Standing
from countermand.tools.world.models.common import (
    ById,
    Money,
    Nothing,
    Page,
    Paging,
    PlanName,
    Probe,
    Undo,
    Undone,
)
from countermand.tools.world.models.inventory import (
    Catalogue,
    InventoryState,
    Plan,
    Quote,
    QuoteRequest,
    Reservation,
    Reserve,
)
from countermand.tools.world.operations import Call, Provider, by_id, effect, page, read, thing_id, to_undo


class StockRow(Base, kw_only=True):
    """Units of a plan that nobody holds. The database itself keeps them from going below zero."""

    __tablename__ = "stock"
    __table_args__ = (CheckConstraint("units >= 0", name="stock_never_negative"),)

    plan: Mapped[PlanName] = mapped_column(primary_key=True)
    units: Mapped[int]


class ReservationRow(ThingRow, kw_only=True):
    """Units held for somebody."""

    __tablename__ = "reservations"

    status: Mapped[str]
    plan: Mapped[PlanName]
    quantity: Mapped[int]
    reference: Mapped[str]


class QuoteRow(Base, kw_only=True):
    """A quote; never changed."""

    __tablename__ = "quotes"

    id: Mapped[str] = mapped_column(primary_key=True)
    content: Mapped[str]


def stock_up(session: Session, stock: dict[PlanName, int]) -> None:
    """Set how many units there are."""
    for plan, units in stock.items():
        session.merge(StockRow(plan=plan, units=units))


def show_catalogue(call: Call, _body: Nothing) -> Catalogue:
    """What can be ordered, where, and at what price."""
    return Catalogue(
        plans=_plans(call.session),
        load_balancer=Money(amount=catalogue.LOAD_BALANCER_PRICE, currency=catalogue.CURRENCY),
        regions=list(catalogue.REGIONS),
    )


def quote(call: Call, body: QuoteRequest) -> Quote:
    """Price an order."""
    priced = catalogue.price(body)
    call.session.merge(QuoteRow(id=priced.id, content=priced.model_dump_json()))
    return priced


def get_quote(call: Call, body: ById) -> Quote:
    """One quote."""
    row = call.session.get(QuoteRow, body.id)
    if row is None:
        raise missing("quote", body.id)
    return Quote.model_validate_json(row.content)


def reserve(call: Call, body: Reserve) -> Reservation:
    """Take units out of stock."""
    stock = call.session.get_one(StockRow, body.plan)
    if stock.units < body.quantity:
        raise Refusal(409, "out_of_stock", f"quantity: {body.quantity} of {body.plan} asked, {stock.units} in stock.")
    stock.units -= body.quantity
    row = ReservationRow(
        id=thing_id("res", call),
        key=call.key,
        created_at=call.now,
        status="held",
        plan=body.plan,
        quantity=body.quantity,
        reference=body.reference,
    )
    call.session.add(row)
    call.record("do", "reservation", row.id)
    return Reservation.model_validate(row)


def release(call: Call, body: Undo) -> Undone[Reservation]:
    """Put held units back into stock."""
    row = to_undo(call, ReservationRow, "reservation", body)
    if row is None or row.status == "released":
        return Undone[Reservation](outcome="noop", result=None)
    row.status = "released"
    call.session.get_one(StockRow, row.plan).units += row.quantity
    call.record("undo", "reservation", row.id)
    return Undone[Reservation](outcome="done", result=Reservation.model_validate(row))


def get_reservation(call: Call, body: ById) -> Reservation:
    """One reservation."""
    return Reservation.model_validate(by_id(call, ReservationRow, "reservation", body.id))


def list_reservations(call: Call, body: Paging) -> Page[Reservation]:
    """Reservations, oldest first."""
    return page(call, ReservationRow, "reservation", Reservation, body)


def tables(session: Session) -> InventoryState:
    """All of the provider's tables."""
    return InventoryState(
        plans=_plans(session),
        reservations=[Reservation.model_validate(row) for row in _reservations(session)],
        quotes=[Quote.model_validate_json(row.content) for row in session.scalars(select(QuoteRow))],
    )


def standing(session: Session) -> list[Standing]:
    """Reservations that are held."""
    return [
        Standing(provider="inventory", kind="reservation", id=row.id, key=row.key)
        for row in _reservations(session)
        if row.status == "held"
    ]


def settle(_call: Call) -> None:
    """Time changes nothing here."""


def _reservations(session: Session) -> list[ReservationRow]:
    return list(session.scalars(select(ReservationRow).order_by(ReservationRow.seq)))


def _plans(session: Session) -> list[Plan]:
    units = {row.plan: row.units for row in session.scalars(select(StockRow))}
    return [
        Plan(
            plan=plan,
            sku=catalogue.sku(plan),
            price=Money(amount=amount, currency=catalogue.CURRENCY),
            stock=units[plan],
        )
        for plan, amount in catalogue.PRICES.items()
    ]


PROVIDER = Provider(
    name="inventory",
    operations=(
        effect("inventory.reserve", Reserve, reserve),
        effect("inventory.release", Undo, release, undoes=("inventory.reserve",)),
        read("inventory.catalog", Nothing, show_catalogue),
        read("inventory.quote", QuoteRequest, quote, method="POST"),
        read("inventory.get_quote", ById, get_quote),
        read("inventory.get_reservation", ById, get_reservation),
        read("inventory.list_reservations", Paging, list_reservations),
        read("inventory.probe", Probe, probe),
    ),
    tables=tables,
    standing=standing,
    settle=settle,
)
