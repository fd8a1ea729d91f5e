"""The order desk's policy, as the stub plays it: what to do next.

It plays every agent of any team: it calls what it holds, and hands over to whoever holds what comes next.
"""

import re

from langchain_core.messages import HumanMessage, ToolMessage

from countermand.agents.builtin import TRANSFER
from countermand.agents.desk import Args, Desk, Reply, Result
from countermand.agents.details import PLANS, REGIONS, Details, details
from countermand.agents.orders import understand
from countermand.agents.placing import STEPS, ready_steps, stands
from countermand.agents.team import REMINDER
from countermand.agents.words import (
    asks_about_name,
    asks_for_mail,
    asks_price,
    confirms,
    declines,
    drops,
    retries,
    takes_back,
    vocabulary,
)
from countermand.tools.inventory import Quote

_WHO = (
    "I am Countermand's stub model: no language model, but enough to run the order desk for hosted environments, and "
    f"nothing else. Tell me plan ({', '.join(PLANS)}), region ({', '.join(REGIONS)}), your e-mail and a host name, for "
    "example: a medium environment in eu-west for ada@example.com at ada.example.dev, two load balancers."
)


def order(desk: Desk) -> Reply:
    """What a careful desk does next."""
    if desk.error:
        return _refused(desk)
    if isinstance(desk.last, ToolMessage) or (isinstance(desk.last, HumanMessage) and desk.last.text == REMINDER):
        return _go_on(desk)
    return _look_up(desk) or listen(desk)


def _look_up(desk: Desk) -> Reply | None:
    named = details(desk.said).values
    if "hostname" in named and asks_about_name(desk.said):
        kind = "TXT" if "txt" in vocabulary(desk.said) else "A"
        return _call(desk, "look_up_domain", {"hostname": named["hostname"], "kind": kind})
    if "email" in named and "read_mail" in desk.offered and asks_for_mail(desk.said):
        return _call(desk, "read_mail", {"sender": named["email"]})
    return None


def _refused(desk: Desk) -> Reply:
    if desk.tried & STEPS.keys():
        return Reply(calls=(("abort", {"reason": desk.error[:500]}),))
    return Reply(f"I could not do that: {desk.error}")


def listen(desk: Desk) -> Reply:
    """What to do about what the customer said last."""
    said = details(desk.said)
    if takes_back(desk.said, placed=desk.placed and not desk.asked):
        return _call(desk, "revoke_order", {}, lacking="I can't take back an order that was placed.")
    agrees = confirms(said.rest)
    if desk.quote is not None and agrees:
        return _place(desk, desk.quote)
    if desk.heard and said.several:
        return Reply(_which(said))
    if desk.heard or (desk.asked and desk.quote is None and (agrees or retries(desk.said))):
        return quote(desk)
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
        return f" Your quote stands, {_words(desk.quote)} for {desk.quote.total}: nothing is placed until you say yes."
    if desk.asked and (wanted := understand(desk.asked).missing()):
        return f" For your order I still need {_listed(wanted)}."
    if drops(desk.said):
        placed = " Say so if you want to take back the order that you placed." if desk.placed else ""
        return f" No order is at hand, and nothing new was placed.{placed}"
    return ""


def quote(desk: Desk) -> Reply:
    """Ask for what is missing, or price the order."""
    draft = understand(desk.asked)
    if problems := draft.problems():
        return Reply("I can't order it so: " + "; ".join(problems.values()))
    if wanted := draft.missing():
        return Reply(f"Gladly. For your order I still need {_listed(wanted)}.")
    return _call(desk, "quote_order", draft.order().model_dump(mode="json"))


def _go_on(desk: Desk) -> Reply:
    if "revoke_order" in desk.results:
        return _revoked(desk)
    if "look_up_domain" in desk.results and not stands(desk):
        return Reply(_answered(desk.results["look_up_domain"][-1]))
    if "read_mail" in desk.results and not stands(desk):
        return Reply(_written(desk.results["read_mail"][-1]))
    if desk.quote is None:
        return quote(desk) if desk.asked else Reply(_WHO)
    if "quote_order" in desk.results and not stands(desk) and (not desk.confirmed or asks_price(desk.said)):
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
    ready = ready_steps(desk)
    for name in ready:
        if name in desk.offered:
            times = quote.order.load_balancers if name == "create_load_balancer" else 1
            return Reply(calls=((name, STEPS[name].args(desk, quote)),) * times)
    if ready:
        return _hand_over(desk, ready[0])
    cluster = desk.results["provision_cluster"][0]["cluster_id"]
    balancers = _listed([str(one["load_balancer_id"]) for one in desk.results["create_load_balancer"]])
    payment = desk.results["authorize_payment"][0]["payment_id"]
    return Reply(
        f"Placed: {_words(quote)} for {quote.total}.\nCluster {cluster}, load balancers {balancers}, answering at "
        f"{quote.order.hostname}; payment {payment}; a confirmation went to {quote.order.email}."
    )


def _call(desk: Desk, name: str, args: Args, *, lacking: str = "") -> Reply:
    return Reply(calls=((name, args),)) if name in desk.offered else _hand_over(desk, name, lacking)


def _hand_over(desk: Desk, wanted: str, lacking: str = "") -> Reply:
    """Hand over to whoever holds a tool, or else to a colleague who has not been asked yet in this turn."""
    colleagues = {name: told for name, told in desk.offered.items() if name.startswith(TRANSFER)}
    holders = [name for name, told in colleagues.items() if re.search(rf"\b{wanted}\b", told)]
    others = [name for name in colleagues if name not in desk.results]
    if chosen := holders or others:
        return Reply(calls=((chosen[0], {}),))
    reason = lacking or f"Nobody here can {wanted.replace('_', ' ')}."
    return Reply(calls=(("abort", {"reason": reason}),)) if stands(desk) else Reply(reason)


def _told(quote: Quote) -> str:
    lines = "\n".join(f"  {line.quantity} x {line.item}: {line.price}" for line in quote.lines)
    return (
        f"{_words(quote)}:\n{lines}\nTotal: {quote.total}.\n"
        "Say yes, and I reserve, charge and provision it; if anything fails on the way, all of it is undone."
    )


def _words(quote: Quote) -> str:
    order_ = quote.order
    return f"{order_.quantity} {order_.plan} in {order_.region} with {order_.load_balancers} load balancer(s)"


def _answered(answer: Result) -> str:
    values = answer["values"]
    told = "; ".join(map(str, values)) if isinstance(values, list) and values else "nothing"
    return f"{answer['hostname']} answers: {told}."


def _written(inbox: Result) -> str:
    mails = inbox["mails"] if isinstance(inbox["mails"], list) else []
    told = [f"{one['subject']}: {one['body']}" for one in mails if isinstance(one, dict)]
    return "\n".join(told) or "No mail came from that address."


def _listed(things: list[str]) -> str:
    return things[0] if len(things) == 1 else ", ".join(things[:-1]) + " and " + things[-1]
