"""What the order desk knows, as the stub plays it: from what was said, and from what the tools answered."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import JsonValue

from countermand.agents.details import details
from countermand.agents.orders import REQUIRED, Draft, concerns, understand
from countermand.agents.team import CONFIRMED, REMINDER
from countermand.agents.words import asks_about_name, asks_for_mail, drops
from countermand.tools.inventory import Quote

Args = dict[str, JsonValue]
Call = tuple[str, Args]
Result = dict[str, JsonValue]


@dataclass(frozen=True)
class Reply:
    """What the model answers: text, or calls."""

    text: str = ""
    calls: tuple[Call, ...] = ()


@dataclass
class Desk:
    """What the desk knows of the conversation.

    Attributes:
        confirmed: Whether the customer confirmed in advance.
        offered: The tools that the agent holds, with what the model reads of them.
        said: What the customer said last.
        heard: Whether that was about an order.
        asked: The customer's messages about the order at hand.
        quote: The quote that stands: nothing was said since that changes it.
        quoted: Whether the order at hand was quoted before.
        placed: Whether an order was placed earlier in the conversation.
        results: What the tools answered in this turn, by tool, in order.
        tried: The tools that were called in this turn.
        error: Why one of the last calls was refused.
        last: The last message.
    """

    confirmed: bool = False
    offered: Mapping[str, str] = field(default_factory=dict[str, str])
    said: str = ""
    heard: bool = False
    asked: list[str] = field(default_factory=list)
    quote: Quote | None = None
    quoted: bool = False
    placed: bool = False
    results: dict[str, list[Result]] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)
    error: str = ""
    last: BaseMessage | None = None

    def forget_order(self) -> None:
        """Begin anew: no order is at hand."""
        self.asked, self.quote, self.quoted = [], None, False

    def hear(self, text: str) -> None:
        """Take in what the customer says at the beginning of a turn."""
        if "commit" in self.results:
            self.placed |= "revoke_order" not in self.results
            self.forget_order()
        self.said, self.results, self.tried, self.error = text, {}, set(), ""
        said = details(text)
        if drops(text) and not said:
            self.forget_order()
        reads = asks_about_name(text) or asks_for_mail(text)
        self.heard = not reads and concerns(text, said, ordering=bool(self.asked))
        if not self.heard:
            return
        if self.quoted and said.values.keys() >= REQUIRED:
            # A whole order after one that was quoted is another one, not a correction of it.
            self.forget_order()
        self.asked.append(text)
        if self.quote is not None and (said.several or not _same(understand(self.asked), self.quote)):
            self.quote = None


def _same(draft: Draft, quote: Quote) -> bool:
    return not (draft.missing() or draft.problems()) and draft.order() == quote.order


def read(messages: Sequence[BaseMessage], offered: Mapping[str, str]) -> Desk:
    """The desk's knowledge, from the whole conversation."""
    desk = Desk(offered=offered, last=messages[-1] if messages else None)
    for message in messages:
        match message:
            case SystemMessage():
                desk.confirmed = CONFIRMED in message.text
            case HumanMessage() if message.text != REMINDER:
                desk.hear(message.text)
            case ToolMessage(status="error"):
                desk.error = message.text
            case ToolMessage():
                result: Result = json.loads(message.text)
                desk.results.setdefault(message.name or "", []).append(result)
                if message.name == "quote_order":
                    desk.quote, desk.quoted = Quote.model_validate(result), True
            case AIMessage():
                # Calls of one message may be refused and answered side by side: an error stands until the next.
                desk.error = ""
                desk.tried |= {call["name"] for call in message.tool_calls}
                if message.text.startswith("Rolled back"):
                    desk.quote, desk.results = None, {}
            case _:
                pass
    return desk
