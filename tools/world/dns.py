"""DNS: records with versions, undone by putting back what stood before.

The zone is kept as the sequence of its changes: the last change of a name is what stands, the last one that has
propagated is what resolvers answer. So an undo appends a change too, and no state is ever overwritten.
"""

from sqlalchemy import JSON, Select, func, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from countermand.tools.world.database import Base
from countermand.tools.world.errors import Refusal, missing
from countermand.tools.world.idempotency import probe
from countermand.tools.world.ledger import Standing
from countermand.tools.world.models.common import Page, Paging, Probe, Undo, Undone
from countermand.tools.world.models.dns import (
    Content,
    DnsState,
    Record,
    RecordName,
    RecordType,
    Register,
    Registered,
    Resolved,
    Restored,
)
from countermand.tools.world.operations import Call, Provider, effect, read


class ChangeRow(Base, kw_only=True):
    """What stands at a name from this change on; ``version`` 0: nothing.

    ``version`` is the ``seq`` of the change that wrote the record first, also where an undo puts it back.
    ``before`` is the change that stood before, ``undone`` whether this one has been undone.
    """

    __tablename__ = "dns_changes"

    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=True, init=False)
    name: Mapped[str] = mapped_column(index=True)
    type: Mapped[RecordType]
    values: Mapped[list[str]] = mapped_column(JSON, default_factory=list)
    ttl: Mapped[int] = mapped_column(default=0)
    version: Mapped[int] = mapped_column(default=0)
    key: Mapped[str | None] = mapped_column(default=None, index=True)
    before: Mapped[int | None] = mapped_column(default=None)
    undone: Mapped[bool] = mapped_column(default=False)
    live_at: Mapped[float]

    @property
    def id(self) -> str:
        """The record's id."""
        return f"rec_{self.version}"


def write(session: Session, content: Content, *, key: str | None, live_at: float) -> ChangeRow:
    """Write a record over whatever stands there."""
    before = _last(session, content)
    row = ChangeRow(
        name=content.name,
        type=content.type,
        values=list(content.values),
        ttl=content.ttl,
        key=key,
        before=before.seq if before else None,
        live_at=live_at,
    )
    session.add(row)
    session.flush()
    row.version = row.seq
    return row


def register(call: Call, body: Register) -> Registered:
    """Write a record, if what stands there is what the caller expects."""
    previous = _standing_record(call.session, body)
    stands = previous.version if previous else None
    if body.expected_version not in ("any", stands):
        raise Refusal(
            409,
            "version_conflict",
            f"expected_version: {body.name} {body.type} is at version {stands or 'none (no record)'}, "
            f"{body.expected_version or 'no record'} was expected.",
        )
    row = write(call.session, body, key=call.key, live_at=call.now + call.settings.propagation_delay_s)
    call.record("do", "route", row.id)
    return Registered(record=Record.model_validate(row), previous=previous)


def unregister(call: Call, body: Undo) -> Undone[Restored]:
    """Put back exactly what stood before a record was written, if that record still stands."""
    written = _written(call.session, body)
    if written is None or written.undone:
        return Undone[Restored](outcome="noop", result=None)
    name = RecordName(name=written.name, type=written.type)
    current = _standing_record(call.session, name)
    if current is None or current.version != written.version:
        raise Refusal(
            409,
            "changed_since",
            f"{written.name} {written.type} was changed since version {written.version} was written; "
            "that change is left as it is.",
        )
    written.undone = True
    before = call.session.get(ChangeRow, written.before) if written.before else None
    call.session.add(
        ChangeRow(
            name=written.name,
            type=written.type,
            values=before.values if before else [],
            ttl=before.ttl if before else 0,
            version=before.version if before else 0,
            key=before.key if before else None,
            live_at=call.now + call.settings.propagation_delay_s,
        )
    )
    call.record("undo", "route", written.id)
    restored = Restored(**name.model_dump(), record=_standing_record(call.session, name))
    return Undone[Restored](outcome="done", result=restored)


def get_record(call: Call, body: RecordName) -> Record:
    """The record that stands at a name."""
    found = _standing_record(call.session, body)
    if found is None:
        raise missing(f"{body.type} record", body.name)
    return found


def list_records(call: Call, body: Paging) -> Page[Record]:
    """Records that stand, oldest version first."""
    after = _version(body.after) if body.after else 0
    rows = call.session.scalars(_current().where(ChangeRow.version > after).limit(body.limit + 1)).all()
    shown = [Record.model_validate(row) for row in rows[: body.limit]]
    return Page[Record](data=shown, next=shown[-1].id if len(rows) > body.limit else None)


def resolve(call: Call, body: RecordName) -> Resolved:
    """What resolvers answer now."""
    propagated = _changes(body).where(ChangeRow.live_at <= call.now).limit(1)
    row = call.session.scalar(propagated)
    return Resolved(name=body.name, type=body.type, values=row.values if row else [])


def tables(session: Session) -> DnsState:
    """The records that stand."""
    return DnsState(records=[Record.model_validate(row) for row in session.scalars(_current())])


def standing(session: Session) -> list[Standing]:
    """Routes that a call wrote; a record that stood before anybody called is nobody's effect."""
    return [
        Standing(provider="dns", kind="route", id=row.id, key=row.key)
        for row in session.scalars(_current())
        if row.key is not None
    ]


def settle(_call: Call) -> None:
    """Nothing is to be done: ``resolve`` looks at the clock itself."""


def _changes(name: RecordName) -> Select[ChangeRow]:
    """The changes of a name, newest first."""
    mine = (ChangeRow.name == name.name, ChangeRow.type == name.type)
    return select(ChangeRow).where(*mine).order_by(ChangeRow.seq.desc())


def _last(session: Session, name: RecordName) -> ChangeRow | None:
    return session.scalar(_changes(name).limit(1))


def _standing_record(session: Session, name: RecordName) -> Record | None:
    row = _last(session, name)
    return Record.model_validate(row) if row is not None and row.version else None


def _current() -> Select[ChangeRow]:
    """The last change of every name at which something stands."""
    last = select(func.max(ChangeRow.seq)).group_by(ChangeRow.name, ChangeRow.type)
    return select(ChangeRow).where(ChangeRow.seq.in_(last), ChangeRow.version > 0).order_by(ChangeRow.version)


def _written(session: Session, undo: Undo) -> ChangeRow | None:
    """The change that an undo names, as it was written first."""
    first = select(ChangeRow).where(ChangeRow.version == ChangeRow.seq)
    if undo.original_key is not None:
        return session.scalar(first.where(ChangeRow.key == undo.original_key))
    row = session.scalar(first.where(ChangeRow.seq == _version(undo.id or "")))
    if row is None:
        raise missing("record", undo.id or "")
    return row


def _version(record_id: str) -> int:
    """The version that a record's id names."""
    number = record_id.removeprefix("rec_")
    if not number.isdecimal() or len(number) > 18:  # noqa: PLR2004 - what SQLite can hold
        raise missing("record", record_id)
    return int(number)


PROVIDER = Provider(
    name="dns",
    operations=(
        effect("dns.register", Register, register),
        effect("dns.unregister", Undo, unregister, undoes=("dns.register",)),
        read("dns.get_record", RecordName, get_record),
        read("dns.list_records", Paging, list_records),
        read("dns.resolve", RecordName, resolve),
        read("dns.probe", Probe, probe),
    ),
    tables=tables,
    standing=standing,
    settle=settle,
)
