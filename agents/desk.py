"""The order desk's policy, as the stub plays it: what to do next, from what was said and what the tools answered."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import JsonValue

from countermand.agents.details import PLANS, REGIONS, Details, details
from countermand.agents.orders import REQUIRED, Draft, concerns, understand
from countermand.agents.team import CONFIRMED, REMINDER
from countermand.agents.words import asks_price, confirms, declines, drops, retries, takes_back
from countermand.tools.inventory import Quote

Call = tuple[str, dict[str, JsonValue]]
Result = dict[str, JsonValue]

_WHO = (
    "I am Countermand's stub model: no language model, but enough to run the order desk for hosted environments, and "
    f"nothing else. Tell me plan ({', '.join(PLANS)}), region ({', '.join(REGIONS)}), your e-mail and a host name, for "
    "example: a medium environment in eu-west for ada@example.com at ada.example.dev, two load balancers."
)


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
        offered: The tools that the desk holds.
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
    offered: tuple[str, ...] = ()
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
        self.heard = concerns(text, said, ordering=bool(self.asked))
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


def read(messages: Sequence[BaseMessage], offered: tuple[str, ...]) -> Desk:
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


def order(desk: Desk) -> Reply:
    """What a careful desk does next."""
    if desk.error:
        return _refused(desk)
    if isinstance(desk.last, ToolMessage) or (isinstance(desk.last, HumanMessage) and desk.last.text == REMINDER):
        return _go_on(desk)
    return _listen(desk)


def _refused(desk: Desk) -> Reply:
    if desk.tried - {"quote_order", "revoke_order"}:
        return Reply(calls=(("abort", {"reason": desk.error[:500]}),))
    return Reply(f"I could not do that: {desk.error}")


def _listen(desk: Desk) -> Reply:
    said = details(desk.said)
    if takes_back(desk.said, placed=desk.placed and not desk.asked):
        can = "revoke_order" in desk.offered
        return Reply(calls=(("revoke_order", {}),)) if can else Reply("I can't take back an order that was placed.")
    agrees = confirms(said.rest)
    if desk.quote is not None and agrees:
        return _place(desk, desk.quote)
    if desk.heard and said.several:
        return Reply(_which(said))
    if desk.heard or (desk.asked and desk.quote is None and (agrees or retries(desk.said))):
        return _quote(understand(desk.asked))
    if desk.quote is not None and declines(desk.said):
        return Reply("Nothing was placed. Tell me what to change, or say yes to place it as quoted.")
    return Reply(f"{_WHO}{_at_hand(desk)}")


def _which(said: Details) -> str:
    named = "; ".join(f"{name.replace('_', ' ')} {' and '.join(map(str, many))}" for name, many in said.several.items())
    if len(said.several) > 1:
        return f"You named several: {named}. I take one order at a time: please tell me the first one by itself, whole."
    return f"You named several: {named}. Which one shall it be? I take one order at a time."


def _at_hand(desk: Desk) -> str:
    """Where the customer's order is, if he has one."""
    if desk.quote is not None:
        return (
            f" Your quote stands, {_words(desk.quote)} for {_money(desk.quote)}: nothing is placed until you say yes."
        )
    if desk.asked and (wanted := understand(desk.asked).missing()):
        return f" For your order I still need {_listed(wanted)}."
    if drops(desk.said):
        placed = " Say so if you want to take back the order that you placed." if desk.placed else ""
        return f" No order is at hand, and nothing new was placed.{placed}"
    return ""


def _quote(draft: Draft) -> Reply:
    if problems := draft.problems():
        return Reply("I can't order it so: " + "; ".join(problems.values()))
    if wanted := draft.missing():
        return Reply(f"Gladly. For your order I still need {_listed(wanted)}.")
    return Reply(calls=(("quote_order", draft.order().model_dump(mode="json")),))


def _go_on(desk: Desk) -> Reply:
    if "revoke_order" in desk.results:
        return _revoked(desk)
    if desk.quote is None:
        return Reply(_WHO)
    if set(desk.results) == {"quote_order"} and (not desk.confirmed or asks_price(desk.said)):
        return Reply(_told(desk.quote))
    return _place(desk, desk.quote)


def _revoked(desk: Desk) -> Reply:
    if "commit" not in desk.results:
        return Reply(calls=(("commit", {}),))
    left = desk.results["revoke_order"][0]["left"]
    told = [str(one["message"]) for one in left if isinstance(one, dict)] if isinstance(left, list) else []
    return Reply("The order was taken back." + (f" What can't be undone: {'; '.join(told)}." if told else ""))


def _place(desk: Desk, quote: Quote) -> Reply:
    """The next calls of an order; ids come from what the tools answered, and from nowhere else."""
    for name, args in _steps(desk, quote):
        if name not in desk.results:
            times = quote.order.load_balancers if name == "create_load_balancer" else 1
            return Reply(calls=((name, args),) * times)
    cluster = desk.results["provision_cluster"][0]["cluster_id"]
    balancers = _listed([str(one["load_balancer_id"]) for one in desk.results["create_load_balancer"]])
    payment = desk.results["authorize_payment"][0]["payment_id"]
    return Reply(
        f"Placed: {_words(quote)} for {_money(quote)}.\nCluster {cluster}, load balancers {balancers}, answering at "
        f"{quote.order.hostname}; payment {payment}; a confirmation went to {quote.order.email}."
    )


def _steps(desk: Desk, quote: Quote) -> Iterator[Call]:
    """The calls that place an order, in their order; each is asked for only when those before it are answered."""
    done = desk.results
    quoted: dict[str, JsonValue] = {"quote_id": quote.quote_id}
    card = understand(desk.asked).card
    yield "reserve_stock", quoted
    yield "authorize_payment", quoted | ({"card_token": card} if card else {})
    yield "provision_cluster", quoted
    yield "create_load_balancer", {"cluster_id": done["provision_cluster"][0]["cluster_id"]}
    ids: list[JsonValue] = [balancer["load_balancer_id"] for balancer in done["create_load_balancer"]]
    yield "register_domain_route", {"hostname": quote.order.hostname, "load_balancer_ids": ids}
    yield "capture_payment", {"payment_id": done["authorize_payment"][0]["payment_id"]}
    yield "send_confirmation", quoted
    yield "commit", {}


def _told(quote: Quote) -> str:
    lines = "\n".join(
        f"  {line.quantity} x {line.item}: {line.price.amount / 100:,.2f} {line.price.currency.upper()}"
        for line in quote.lines
    )
    return (
        f"{_words(quote)}:\n{lines}\nTotal: {_money(quote)}.\n"
        "Say yes, and I reserve, charge and provision it; if anything fails on the way, all of it is undone."
    )


def _words(quote: Quote) -> str:
    order_ = quote.order
    return f"{order_.quantity} {order_.plan} in {order_.region} with {order_.load_balancers} load balancer(s)"


def _money(quote: Quote) -> str:
    return f"{quote.total.amount / 100:,.2f} {quote.total.currency.upper()}"


def _listed(things: list[str]) -> str:
    return things[0] if len(things) == 1 else ", ".join(things[:-1]) + " and " + things[-1]


def looping(desk: Desk) -> Reply:
    """Quotes for ever."""
    draft = understand(desk.asked)
    return order(desk) if draft.missing() else _quote(draft)


def forgetful(desk: Desk) -> Reply:
    """Does everything, and never commits."""
    reply = order(desk)
    return Reply("All done, I think.") if reply.calls == (("commit", {}),) else reply


def careless(desk: Desk) -> Reply:
    """Gets the first call of a turn wrong, and mends it."""
    if desk.error and not desk.results:
        desk.error = ""
        return order(desk) if isinstance(desk.last, HumanMessage) else _listen(desk)
    reply = order(desk)
    if reply.calls and not desk.results and isinstance(desk.last, HumanMessage):
        return Reply(calls=((reply.calls[0][0], {"quote": "?"}),))
    return reply


PERSONAS: dict[str, Callable[[Desk], Reply]] = {
    "order": order,
    "careless": careless,
    "looping": looping,
    "forgetful": forgetful,
}
"""The stub's ways to behave; all but the first are for tests of what keeps them harmless."""
