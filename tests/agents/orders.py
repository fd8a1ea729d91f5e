"""An order in plain words, and its calls one by one, for tests of turns that a script plays."""

from countermand.agents.scripted import Expect, ScriptCall, ScriptStep
from countermand.saga.types import JsonObject

TEXT = "a medium environment in eu-west for ada@example.com at ada.example.dev, two load balancers"
ORDER: JsonObject = {
    "plan": "medium",
    "region": "eu-west",
    "email": "ada@example.com",
    "hostname": "ada.example.dev",
    "load_balancers": 2,
}
QUOTED: JsonObject = {"quote_id": "{{quote_order.quote_id}}"}
KINDS = ["cluster", "load_balancer", "load_balancer", "message", "payment", "reservation", "route"]


def calls(*made: tuple[str, JsonObject], last: str | None = None) -> ScriptStep:
    """One model message with these calls."""
    return ScriptStep(
        expect=Expect(last_tool=last), calls=tuple(ScriptCall(tool=name, args=args) for name, args in made)
    )


QUOTE = calls(("quote_order", ORDER))
RESERVE = calls(("reserve_stock", QUOTED))
CHARGE = calls(("authorize_payment", QUOTED))
CLUSTER = calls(("provision_cluster", QUOTED))
MAIL = calls(("send_confirmation", QUOTED))
COMMIT = calls(("commit", {}))
BYE = ScriptStep(say="Done.")
