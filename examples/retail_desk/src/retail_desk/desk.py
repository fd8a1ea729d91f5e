"""The desk in one transaction: finds what it is asked for, and keeps the before-image of each row that it changes."""

from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel
from sqlalchemy import ColumnElement, Connection, Table, insert, select, update

from countermand.saga import ToolRefused
from countermand.saga.types import Frozen, JsonObject
from retail_desk.database import HANDOVERS, ORDERS, PAYMENT_METHODS, USERS, VARIANTS
from retail_desk.models import Handover, Order, Payment, PaymentMethod, User, Variant

RowT = TypeVar("RowT", bound=BaseModel)

_TABLES: dict[type[BaseModel], Table] = {
    Order: ORDERS,
    User: USERS,
    PaymentMethod: PAYMENT_METHODS,
    Variant: VARIANTS,
    Handover: HANDOVERS,
}


class BeforeImage(Frozen):
    """A row as it was; None if it was not there."""

    table: str
    id: str
    row: JsonObject | None


@dataclass
class Desk:
    """One transaction of the desk.

    Attributes:
        connection: The transaction.
        version: What the rows that are saved get as their version.
        before: The rows that were changed, as they were, in the order of their change.
    """

    connection: Connection
    version: str
    before: list[BeforeImage] = field(default_factory=list)

    def order(self, order_id: str) -> Order:
        """An order by its id, or ``ToolRefused``."""
        return self._one(Order, f"there is no order {order_id}", ORDERS.c.order_id == order_id)

    def user(self, user_id: str) -> User:
        """A customer by id, or ``ToolRefused``."""
        return self._one(User, f"there is no user {user_id}", USERS.c.user_id == user_id)

    def variant(self, item_id: str) -> Variant:
        """A variant by its item id, or ``ToolRefused``."""
        return self._one(Variant, f"there is no item {item_id}", VARIANTS.c.item_id == item_id)

    def payment_method(self, user_id: str, method_id: str) -> PaymentMethod:
        """A customer's own payment method, or ``ToolRefused``."""
        mine = PAYMENT_METHODS.c.user_id == user_id
        missing = f"{user_id} has no payment method {method_id}"
        return self._one(PaymentMethod, missing, mine, PAYMENT_METHODS.c.payment_method_id == method_id)

    def find(self, model: type[RowT], *where: ColumnElement[bool]) -> list[RowT]:
        """All rows of a kind for which the conditions hold."""
        table = table_of(model)
        wanted = select(*(table.c[name] for name in model.model_fields)).where(*where)
        return [model.model_validate(dict(row)) for row in self.connection.execute(wanted).mappings()]

    def save(self, new: RowT) -> RowT:
        """Write a row, and keep what it was before."""
        table = table_of(type(new))
        key = key_column(table)
        row: JsonObject = {**new.model_dump(mode="json"), "version": self.version}
        was = self.connection.execute(select(table).where(key == row[key.name])).mappings().first()
        self.before.append(BeforeImage(table=table.name, id=str(row[key.name]), row=dict(was) if was else None))
        change = update(table).where(key == row[key.name]) if was else insert(table)
        self.connection.execute(change.values(**row))
        return new

    def pay(self, user_id: str, method_id: str, cents: int) -> Payment:
        """Take money by a customer's method, or give it back where ``cents`` is negative.

        A gift card is charged and credited at once; what other methods owe is settled by their providers, from the
        order's payment history.
        """
        method = self.payment_method(user_id, method_id)
        if method.balance is not None:
            if method.balance < cents:
                raise ToolRefused(f"gift card {method_id} holds {_dollars(method.balance)}, {_dollars(cents)} are due")
            self.save(method.model_copy(update={"balance": method.balance - cents}))
        kind = "payment" if cents > 0 else "refund"
        return Payment(transaction_type=kind, amount=abs(cents), payment_method_id=method_id)

    def _one(self, model: type[RowT], missing: str, *where: ColumnElement[bool]) -> RowT:
        found = self.find(model, *where)
        if not found:
            raise ToolRefused(missing)
        return found[0]


def table_of(kind: type[BaseModel]) -> Table:
    """Where things of a kind are kept."""
    return _TABLES[kind]


def key_column(table: Table) -> ColumnElement[str]:
    """The column that names a table's rows."""
    return next(iter(table.primary_key))


def _dollars(cents: int) -> str:
    return f"{cents / 100:.2f} USD"
