"""Mail: what was sent can't be unsent."""

from sqlalchemy import JSON, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from countermand.tools.world.database import ThingRow
from countermand.tools.world.idempotency import probe
from countermand.tools.world.ledger import Standing
from countermand.tools.world.models.common import ById, Page, Paging, Probe
from countermand.tools.world.models.mail import MailState, Message, Send
from countermand.tools.world.operations import Call, Provider, by_id, effect, page, read, thing_id


class MessageRow(ThingRow, kw_only=True):
    """A message that was sent."""

    __tablename__ = "messages"

    to: Mapped[list[str]] = mapped_column(JSON)
    subject: Mapped[str]
    body: Mapped[str]


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
    return MailState(messages=[Message.model_validate(row) for row in _messages(session)])


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
        read("mail.probe", Probe, probe),
    ),
    tables=tables,
    standing=standing,
    settle=settle,
)
