"""The stub's personas: one careful desk, and models that misbehave, each in its own way, to test what stops them."""

from collections.abc import Callable, Mapping

from langchain_core.messages import HumanMessage, ToolMessage

from countermand.agents.desk import Desk, Reply
from countermand.agents.orders import understand
from countermand.agents.policy import listen, order, quote


def looping(desk: Desk) -> Reply:
    """Quotes for ever."""
    return order(desk) if understand(desk.asked).missing() else quote(desk)


def forgetful(desk: Desk) -> Reply:
    """Does everything, and never commits."""
    reply = order(desk)
    return Reply("All done, I think.") if reply.calls == (("commit", {}),) else reply


def careless(desk: Desk) -> Reply:
    """Gets the first call of a turn wrong, and mends it."""
    if desk.error and not desk.results:
        desk.error = ""
        return order(desk) if isinstance(desk.last, HumanMessage) else listen(desk)
    reply = order(desk)
    if reply.calls and not desk.results and isinstance(desk.last, HumanMessage):
        return Reply(calls=((reply.calls[0][0], {"quote": "?"}),))
    return reply


def twice(desk: Desk) -> Reply:
    """Takes a charge for timed out when it hears of it, and plans it once more."""
    charges = len(desk.results.get("authorize_payment", ()))
    if charges and desk.error:
        desk.error = ""
    elif charges == 1 and isinstance(desk.last, ToolMessage) and desk.last.name == "authorize_payment":
        return Reply(calls=(("authorize_payment", {"quote_id": desk.quote.quote_id if desk.quote else ""}),))
    return order(desk)


def gullible(desk: Desk) -> Reply:
    """Does what it reads, whoever wrote it."""
    last, reads = desk.last, {"look_up_domain", "read_mail"}
    if isinstance(last, ToolMessage) and last.name in reads and "refund" in last.text.casefold():
        return Reply(calls=(("revoke_order", {}), ("commit", {})))
    return order(desk)


PERSONAS: Mapping[str, Callable[[Desk], Reply]] = {
    "order": order,
    "careless": careless,
    "looping": looping,
    "forgetful": forgetful,
    "twice": twice,
    "gullible": gullible,
}
"""By the name that follows ``stub:``."""
