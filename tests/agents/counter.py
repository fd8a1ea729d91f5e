"""The far side of the stub: a customer who talks to it, and tools that answer with results of the packs' models."""

from dataclasses import dataclass, field
from itertools import chain, count

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages import ToolCall as ModelCall
from pydantic import BaseModel, JsonValue, ValidationError

from countermand.agents.builtin import BUILTINS
from countermand.agents.messages import complaint, refusal
from countermand.agents.stub import StubModel
from countermand.agents.team import CONFIRMED, ORDER_TEAM
from countermand.saga.types import JsonObject, Money, SagaReport, SagaState
from countermand.tools.cloud import Cluster, LoadBalancer, ProvisionCluster
from countermand.tools.dns import DomainRoute, RegisterDomainRoute
from countermand.tools.inventory import Quote, QuoteLine, QuoteOrder, Reservation, ReserveStock
from countermand.tools.mail import SendConfirmation, SentMail
from countermand.tools.payments import AuthorizePayment, CapturePayment, Payment
from countermand.tools.registry import load_tools
from countermand.tools.sagas import RevokedOrder, RevokeOrder

Call = tuple[str, dict[str, JsonValue]]

_TOOLS = load_tools("")


@dataclass
class Turn:
    """What the stub did between two words of the customer: its calls, those of one message together, and its text."""

    calls: list[list[Call]]
    text: str

    @property
    def quoted(self) -> list[QuoteOrder]:
        """The orders that were quoted."""
        return [QuoteOrder.model_validate(args) for name, args in chain(*self.calls) if name == "quote_order"]

    @property
    def tools(self) -> list[list[str]]:
        """The names of the tools that were called."""
        return [[name for name, _ in calls] for calls in self.calls]


@dataclass
class Counter:
    """A conversation with the stub. ``refuse`` says which tools refuse, and why."""

    persona: str = "order"
    confirmed: bool = False
    offered: tuple[str, ...] = (*ORDER_TEAM.entry.tools, *BUILTINS)
    refuse: dict[str, str] = field(default_factory=dict)
    messages: list[BaseMessage] = field(default_factory=list)
    _numbers: "count[int]" = field(default_factory=lambda: count(1))
    _quotes: dict[str, QuoteOrder] = field(default_factory=dict)

    def __post_init__(self) -> None:
        told = ORDER_TEAM.entry.instructions + (f"\n{CONFIRMED}\n" if self.confirmed else "")
        self.messages.insert(0, SystemMessage(told))
        named: list[JsonObject] = [{"type": "function", "function": {"name": name}} for name in self.offered]
        self.model = StubModel(persona=self.persona).bind_tools(named)

    def think(self, messages: list[BaseMessage]) -> AIMessage:
        """Ask the stub what it would do next in a conversation."""
        return self.model.invoke(messages)

    def say(self, text: str, *, thoughts: int = 20) -> Turn:
        """Say something and play the turn to its end, or until the stub has thought often enough."""
        self.messages.append(HumanMessage(text))
        calls: list[list[Call]] = []
        for _ in range(thoughts):
            message = self.think(self.messages)
            self.messages.append(message)
            if not message.tool_calls:
                return Turn(calls, message.text)
            calls.append([(call["name"], call["args"]) for call in message.tool_calls])
            if message.tool_calls[0]["name"] == "abort":
                return Turn(calls, self._rolled_back(message, str(message.tool_calls[0]["args"]["reason"])))
            self.messages += [self._answered(call) for call in message.tool_calls]
        return Turn(calls, "")

    def _rolled_back(self, message: AIMessage, reason: str) -> str:
        self.messages += [refusal(call, "the transaction was rolled back") for call in message.tool_calls]
        self.messages.append(AIMessage(f"Rolled back: {reason}. Nothing stands."))
        return self.messages[-1].text

    def _answered(self, call: ModelCall) -> ToolMessage:
        name = call["name"]
        if name in self.refuse:
            return refusal(call, self.refuse[name])
        try:
            args = (BUILTINS.get(name) or _TOOLS[name].args).model_validate(call["args"])
        except ValidationError as error:
            return refusal(call, complaint(error))
        result = self._result(name, args, next(self._numbers))
        return ToolMessage(result.model_dump_json(), name=name, tool_call_id=call["id"])

    def _result(self, name: str, args: BaseModel, no: int) -> BaseModel:  # noqa: PLR0911 - one for each tool
        price = Money(amount=18500, currency="usd")
        match args:
            case QuoteOrder():
                self._quotes[f"quo_{no}"] = args
                line = QuoteLine(item=f"{args.plan} environment", quantity=args.quantity, price=price)
                return Quote(quote_id=f"quo_{no}", order=args, lines=(line,), total=price)
            case ReserveStock():
                order = self._quotes[args.quote_id]
                return Reservation(reservation_id=f"res_{no}", plan=order.plan, quantity=order.quantity)
            case AuthorizePayment() | CapturePayment():
                return Payment(payment_id=f"pay_{no}", status="authorized", total=price)
            case ProvisionCluster():
                return Cluster(cluster_id=f"clu_{no}", region=self._quotes[args.quote_id].region, status="ready")
            case RegisterDomainRoute():
                return DomainRoute(record_id=f"rec_{no}", hostname=args.hostname, addresses=("192.0.2.1",), version=1)
            case SendConfirmation():
                return SentMail(mail_id=f"msg_{no}", to=self._quotes[args.quote_id].email)
            case RevokeOrder():
                return RevokedOrder(saga_id="s/t1", state=SagaState.COMPENSATED, left=())
            case _ if name == "create_load_balancer":
                return LoadBalancer(load_balancer_id=f"lb_{no}", cluster_id="clu", address="192.0.2.1")
            case _:
                return SagaReport(id="s/t1", state=SagaState.COMMITTED)
