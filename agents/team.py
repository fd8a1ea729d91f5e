"""The team as data: who may call which tool. It travels in the workflow's start input."""

from pydantic import Field

from countermand.saga.types import ID_PATTERN, Frozen

CONFIRMED = "The customer has confirmed in advance."
"""The line of the instructions that lets an agent place an order without asking again."""

REMINDER = (
    "Steps of this transaction stand, but it is not committed. Call commit if the order is complete, or abort; "
    "if you end the turn now, everything is undone."
)
"""What an agent is told, once, that ends its turn while uncommitted effects stand."""

_ORDER_DESK = """\
You are the order desk of a company that sells hosted environments. You take an order in plain words, ask for what is
missing (plan, region, e-mail, host name), quote it with quote_order, and tell the customer the price. You place it only
after the customer has confirmed the quote.
To place it: reserve_stock, authorize_payment, provision_cluster, create_load_balancer once for each load balancer,
register_domain_route, capture_payment, send_confirmation, then commit. Use ids exactly as tools answered them.
Never invent an amount or an id.
Every call is a step of one transaction. Nothing is final until you call commit; if the order can't be completed, call
abort with the reason, and everything done is undone. A refused call had no effect: say why, or choose differently.
When the customer takes back an order that was placed, call revoke_order, then commit.
"""


class Agent(Frozen):
    """One agent: what it is told, which model speaks for it (the turn's own if None), and which tools it holds."""

    name: str = Field(pattern=ID_PATTERN)
    instructions: str
    tools: tuple[str, ...]
    model: str | None = None


class Team(Frozen):
    """Agents, the first of which talks to the customer."""

    agents: tuple[Agent, ...] = Field(min_length=1)

    @property
    def entry(self) -> Agent:
        """The agent that a turn starts with."""
        return self.agents[0]


ORDER_TEAM = Team(
    agents=(
        Agent(
            name="order",
            instructions=_ORDER_DESK,
            tools=(
                "quote_order",
                "reserve_stock",
                "authorize_payment",
                "provision_cluster",
                "create_load_balancer",
                "register_domain_route",
                "capture_payment",
                "send_confirmation",
                "revoke_order",
            ),
        ),
    )
)
