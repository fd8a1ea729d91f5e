"""Mail on the wire."""

from pydantic import EmailStr, Field

from countermand.tools.world.models.common import Frozen


class Send(Frozen):
    """A message. It can't be unsent."""

    to: list[EmailStr] = Field(min_length=1, max_length=50)
    subject: str = Field(min_length=1, max_length=200, pattern=r"^[^\r\n]*$")
    body: str = Field(max_length=100_000)


class Message(Send):
    """A message that was sent."""

    id: str
    key: str
    created_at: float = Field(description="Seconds since the epoch.")


class Letter(Frozen):
    """A message that somebody sent to the order desk."""

    sender: EmailStr
    subject: str = Field(default="", max_length=200)
    body: str = Field(max_length=100_000)


class Received(Letter):
    """A message in the order desk's inbox."""

    received_at: float = Field(description="Seconds since the epoch.")


class Inbox(Frozen):
    """The newest messages of one sender, newest first."""

    messages: list[Received]


class FromSender(Frozen):
    """Whose messages to read."""

    sender: EmailStr


class MailState(Frozen):
    """All of the provider's tables."""

    messages: list[Message]
    received: list[Received]
