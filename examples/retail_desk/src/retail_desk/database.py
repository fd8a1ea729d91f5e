"""The shop's database: its tables, and transactions of which one at a time writes.

Every row that the desk may change carries ``version``: the idempotency key of the call that wrote it last, or whatever
another writer (the warehouse, say) puts there. That is how an undo sees that a row is no longer as it left it.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from sqlite3 import Connection as SqliteConnection

from sqlalchemy import JSON, Boolean, Column, Connection, Engine, Integer, MetaData, String, Table, create_engine, event
from sqlalchemy.pool import ConnectionPoolEntry

PLACE = "RETAIL_DESK_DATABASE"
"""The variable that names the database's file."""

SHOP = MetaData()


def _json(name: str) -> Column[object]:
    return Column(name, JSON(none_as_null=True))


def _version() -> Column[str]:
    return Column("version", String, nullable=False, default="")


VARIANTS = Table(
    "variants",
    SHOP,
    Column("item_id", String, primary_key=True),
    Column("product_id", String, nullable=False, index=True),
    Column("name", String, nullable=False),
    _json("options"),
    Column("price", Integer, nullable=False),
    Column("available", Boolean, nullable=False),
)

USERS = Table(
    "users",
    SHOP,
    Column("user_id", String, primary_key=True),
    Column("first_name", String, nullable=False),
    Column("last_name", String, nullable=False),
    Column("email", String, nullable=False),
    _json("address"),
    _version(),
)

PAYMENT_METHODS = Table(
    "payment_methods",
    SHOP,
    Column("payment_method_id", String, primary_key=True),
    Column("user_id", String, nullable=False, index=True),
    Column("source", String, nullable=False),
    Column("brand", String),
    Column("last_four", String),
    Column("balance", Integer),
    _version(),
)

ORDERS = Table(
    "orders",
    SHOP,
    Column("order_id", String, primary_key=True),
    Column("user_id", String, nullable=False, index=True),
    Column("status", String, nullable=False),
    _json("address"),
    _json("items"),
    _json("fulfillments"),
    _json("payment_history"),
    Column("cancel_reason", String),
    _json("return_items"),
    Column("return_payment_method_id", String),
    _json("exchange_items"),
    _json("exchange_new_items"),
    Column("exchange_payment_method_id", String),
    Column("exchange_price_difference", Integer),
    _version(),
)

HANDOVERS = Table(
    "handovers",
    SHOP,
    Column("handover_id", String, primary_key=True),
    Column("summary", String, nullable=False),
    _version(),
)

JOURNAL = Table(
    "journal",
    SHOP,
    Column("no", Integer, primary_key=True),
    Column("key", String, nullable=False, unique=True),
    Column("step", String, nullable=False, index=True),
    Column("direction", String, nullable=False),
    Column("args", String),
    Column("result", String),
    Column("before", String),
    Column("effective", Boolean, nullable=False),
)
"""Every call that wrote and every undo, in their order; nothing in it is ever changed."""


def engine() -> Engine:
    """The database that the variable names; it is made where there is none."""
    return _engine(os.environ.get(PLACE) or "retail_desk.db")


@contextmanager
def transaction() -> Generator[Connection]:
    """A transaction, committed at the end unless the body raises. Others that write wait for it, some seconds."""
    with engine().begin() as connection:
        yield connection


@cache
def _engine(place: str) -> Engine:
    made = create_engine(f"sqlite:///{place}", connect_args={"timeout": 5})
    event.listen(made, "connect", _configure)
    event.listen(made, "begin", _begin)
    with made.begin() as connection:
        SHOP.create_all(connection)
    return made


def _configure(connection: SqliteConnection, _entry: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # the driver's own BEGIN comes too late to be IMMEDIATE
    connection.execute("PRAGMA journal_mode=WAL")


def _begin(connection: Connection) -> None:
    # What is read must still hold when it is written; a forward call and its undo must see each other.
    connection.exec_driver_sql("BEGIN IMMEDIATE")
