"""Tools that do with secrets what tools should not, for ``test_secrets``."""

import os

from countermand.saga.types import Frozen, ToolCall
from countermand.tools.tool import tool

CARD_TOKEN = "tok_1QxSeededAndNobodys42"  # noqa: S105 - nobody's
CUSTOMER = "ada@example.com"


class Customer(Frozen):
    """Whose card is looked for."""

    email: str


class CardOnFile(Frozen):
    """The provider's token of a card."""

    reference: str


@tool(effect="read")
async def look_up_card(_call: ToolCall, _args: Customer) -> CardOnFile:
    """Answer with a secret."""
    return CardOnFile(reference=CARD_TOKEN)


@tool(effect="read", max_attempts=1)
async def check_card(_call: ToolCall, args: CardOnFile) -> CardOnFile:
    """Fail in words that hold two secrets and an address; its local variables do, too."""
    key = os.environ["OPENAI_API_KEY"]
    raise RuntimeError(f"{args.reference} of {CUSTOMER} was refused to {key}")
