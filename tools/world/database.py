"""The world's one database: SQLite, every transaction a writer from its start."""

from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, mapped_column
from sqlalchemy.pool import ConnectionPoolEntry, StaticPool


class Base(MappedAsDataclass, DeclarativeBase, kw_only=True):
    """Every table of the world."""


class ThingRow(Base, kw_only=True):
    """A thing that an effect made. ``key`` is the idempotency key of the call that made it."""

    __abstract__ = True

    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=True, init=False)
    id: Mapped[str] = mapped_column(unique=True)
    key: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[float]


def open_database(path: Path | None) -> Engine:
    """Open the file, or a database in memory for ``None``, and create what is missing.

    One connection serves all: SQLite has one writer anyhow, and the world's transactions never await,
    so a request can neither see another's half-done work nor find the database locked. With a
    write-ahead log and ``synchronous=normal`` a killed process loses nothing that was answered.
    """
    engine = create_engine(
        "sqlite://" if path is None else f"sqlite:///{path}",
        poolclass=StaticPool,
        connect_args={"check_same_thread": False, "isolation_level": None},
    )
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin_as_writer)
    Base.metadata.create_all(engine)
    return engine


def _set_pragmas(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=wal", "synchronous=normal", "busy_timeout=5000", "foreign_keys=on"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_as_writer(connection: Connection) -> None:
    # A deferred transaction that turns writer half-way is what "database is locked" comes from.
    connection.exec_driver_sql("BEGIN IMMEDIATE")
