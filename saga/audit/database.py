"""The log's tables, and how SQLite and PostgreSQL are opened so that one writer appends at a time."""

import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Connection,
    Engine,
    LargeBinary,
    String,
    Text,
    UniqueConstraint,
    create_engine,
    event,
    func,
    make_url,
    select,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.pool import ConnectionPoolEntry

from countermand.saga.audit.errors import AuditError

_WRITE = "countermand_write"
_WRITERS_LOCK = 0x636F756E  # any number will do, as long as all writers of a database use the same


class LogTables(DeclarativeBase):
    """The log."""


class ReceiptRow(LogTables):
    """A leaf: ``body`` is the receipt's canonical JSON, ``content`` the hash of its digests (for idempotency)."""

    __tablename__ = "audit_receipts"
    __table_args__ = (UniqueConstraint("saga", "n"), UniqueConstraint("saga", "content"))
    leaf: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    saga: Mapped[str] = mapped_column(String(256))
    n: Mapped[int]
    content: Mapped[str] = mapped_column(String(64))
    body: Mapped[str] = mapped_column(Text)


class EntryRow(LogTables):
    """A record of a receipt; ``body`` is its canonical JSON."""

    __tablename__ = "audit_entries"
    __table_args__ = ({"sqlite_with_rowid": False},)
    leaf: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    body: Mapped[str] = mapped_column(Text)


class NodeRow(LogTables):
    """The root of a complete subtree (see merkle)."""

    __tablename__ = "audit_nodes"
    __table_args__ = ({"sqlite_with_rowid": False},)
    level: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    index: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    hash: Mapped[bytes] = mapped_column(LargeBinary)


class HeadRow(LogTables):
    """The signed head at a size."""

    __tablename__ = "audit_heads"
    size: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    body: Mapped[str] = mapped_column(Text)


class SaltTables(DeclarativeBase):
    """The salts, in a database of their own: what is deleted there is forgotten, whatever copies the log has."""


class SaltRow(SaltTables):
    """A saga's salt."""

    __tablename__ = "audit_salts"
    saga: Mapped[str] = mapped_column(String(256), primary_key=True)
    salt: Mapped[bytes] = mapped_column(LargeBinary)


def open_database(where: str | Path, tables: type[DeclarativeBase], *, create: bool) -> Engine:
    """Open a database by path (SQLite) or SQLAlchemy URL.

    Raises:
        AuditError: It does not exist and is not to be created, or cannot be reached.
    """
    text = str(where)
    try:
        url = make_url(text if "://" in text else f"sqlite:///{Path(text).absolute()}")
    except ArgumentError as error:
        raise AuditError("the log's place is no database URL: give a path or postgresql+psycopg://…") from error
    name = url.render_as_string(hide_password=True)
    sqlite = url.get_backend_name() == "sqlite"
    if sqlite:
        _prepare_file(Path(url.database or ""), create=create)
    try:
        # An error that quotes a statement's parameters would carry a salt into the workflow's history.
        engine = create_engine(url, hide_parameters=True, connect_args={"timeout": 30} if sqlite else {})
        if sqlite:
            event.listen(engine, "connect", _configure_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
        if create:
            with writing(engine) as connection:
                tables.metadata.create_all(connection)
        else:
            engine.connect().close()
    except ImportError as error:
        raise AuditError(f"{name}: its driver is missing: pip install 'countermand[postgres]'") from error
    except SQLAlchemyError as error:
        raise AuditError(f"{name}: cannot be opened: {str(error.args[0]).splitlines()[0]}") from error
    return engine


@contextmanager
def writing(engine: Engine) -> Generator[Connection]:
    """A transaction that no other writer runs beside, committed at the end."""
    with engine.connect().execution_options(**{_WRITE: True}) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_WRITERS_LOCK)))
        yield connection


@contextmanager
def reading(engine: Engine) -> Generator[Connection]:
    """A transaction that sees one state of the log throughout.

    Raises:
        AuditError: The database holds no log.
    """
    snapshot = {"isolation_level": "REPEATABLE READ"} if engine.dialect.name == "postgresql" else {}
    try:
        with engine.connect().execution_options(**snapshot) as connection:
            yield connection
    except DBAPIError as error:
        name = engine.url.render_as_string(hide_password=True)
        raise AuditError(f"{name}: cannot be read as an audit log: {str(error.orig).splitlines()[0]}") from error


def _prepare_file(path: Path, *, create: bool) -> None:
    if path.exists():
        return
    if not create:
        raise AuditError(f"there is no {path}: give the audit database's place, or run a saga first")
    path.parent.mkdir(parents=True, exist_ok=True)
    # In WAL mode before it has its name: of two workers that switch a file at once, one does not wait, but fails.
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        fresh = Path(folder) / path.name
        fresh.touch(mode=0o600)
        with closing(sqlite3.connect(fresh)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        with suppress(FileExistsError):
            path.hardlink_to(fresh)


def _configure_sqlite(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # the driver's own BEGIN comes too late to be IMMEDIATE
    # A receipt that is answered for must survive a power cut: its loss would look like tampering.
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA secure_delete=ON")


def _begin_sqlite(connection: Connection) -> None:
    # A deferred transaction that reads first and then writes fails under concurrency instead of waiting.
    writes = connection.get_execution_options().get(_WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
