"""Mail: what was sent can't be unsent. What comes in, anybody may have written."""

from sqlalchemy import JSON, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from countermand.tools.world.database import Base, ThingRow
from countermand.tools.world.idempotency import probe
from countermand.tools.world.ledger import Standing
from countermand.tools.world.models.common import ById, Page, Paging, Probe
from countermand.tools.world.models.mail import FromSender, Inbox, Letter, MailState, Message, Received, Send
from countermand.tools.world.operations import Call, Provider, by_id, effect, page, read, thing_id


class MessageRow(ThingRow, kw_only=True):
    """A message that was sent."""

    __tablename__ = "messages"

    to: Mapped[list[str]] = mapped_column(JSON)
    subject: Mapped[str]
    body: Mapped[str]


class ReceivedRow(Base, kw_only=True):
    """A message that came in."""

    __tablename__ = "received_messages"

    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=True, init=False)
    sender: Mapped[str] = mapped_column(index=True)
    subject: Mapped[str]
    body: Mapped[str]
    received_at: Mapped[float]


READ_AT_ONCE = 20
"""Messages of one sender that are read at once."""


def receive(session: Session, letter: Letter, *, received_at: float) -> None:
    """Put a message into the inbox."""
    session.add(ReceivedRow(**letter.model_dump(), received_at=received_at))


def list_received(call: Call, body: FromSender) -> Inbox:
    """The newest messages of one sender, newest first."""
    newest = select(ReceivedRow).where(ReceivedRow.sender == body.sender).order_by(ReceivedRow.seq.desc())
    found = call.session.scalars(newest.limit(READ_AT_ONCE))
    return Inbox(messages=[Received.model_validate(row) for row in found])


def send(call: Call, body: Send) -> Message:
    """Send a message."""
    row = MessageRow(id=thing_id("msg", call), key=call.key, created_at=call.now, **body.model_dump())
    call.session.add(row)
    call.record("do", "message", row.id)
    return Message.model_validate(row)


def get_message(call: Call, body: ById) -> Message:
    """One message."""
    return Message.model_validate(by_id(call, MessageRow, "message", body.id))


def list_messages(call: Call, body: Paging) -> Page[Message]:
    """Messages, oldest first."""
    return page(call, MessageRow, "message", Message, body)


def tables(session: Session) -> MailState:
    """All of the provider's tables."""
    received = session.scalars(select(ReceivedRow).order_by(ReceivedRow.seq))
    return MailState(
        messages=[Message.model_validate(row) for row in _messages(session)],
        received=[Received.model_validate(row) for row in received],
    )


def standing(session: Session) -> list[Standing]:
    """Every message that was ever sent."""
    return [Standing(provider="mail", kind="message", id=row.id, key=row.key) for row in _messages(session)]


def settle(_call: Call) -> None:
    """Time changes nothing here."""


def _messages(session: Session) -> list[MessageRow]:
    return list(session.scalars(select(MessageRow).order_by(MessageRow.seq)))


PROVIDER = Provider(
    name="mail",
    operations=(
        effect("mail.send", Send, send),
        read("mail.get_message", ById, get_message),
        read("mail.list_messages", Paging, list_messages),
        read("mail.list_received", FromSender, list_received),
        read("mail.probe", Probe, probe),
    ),
    tables=tables,
    standing=standing,
    settle=settle,
)
