"""Mail: what was sent can't be unsent."""

from pydantic import EmailStr, Field

from countermand.saga.types import Frozen
from countermand.tools.fields import Identifier


class SendConfirmation(Frozen):
    """Tell the customer that the order is placed."""

    quote_id: Identifier = Field(description="The quote's id; the mail goes to its customer and lists its lines.")


class SentMail(Frozen):
    """A mail that went out."""

    mail_id: Identifier
    to: EmailStr
