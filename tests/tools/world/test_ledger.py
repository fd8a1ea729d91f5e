"""Whatever is called in whatever order, the ledger and what stands agree, and the world's laws hold."""

from collections import Counter
from collections.abc import Generator, Mapping

import httpx2
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from countermand.tools.world.control import State
from countermand.tools.world.ledger import LedgerEntry

from .process import world_process

STOCK = 12
UNDO_OF = {
    "inventory.reserve": "inventory.release",
    "payments.authorize": "payments.void",
    "payments.capture": "payments.refund",
    "cloud.create_cluster": "cloud.terminate_cluster",
    "cloud.create_load_balancer": "cloud.delete_load_balancer",
    "dns.register": "dns.unregister",
}
TOKENS = ["tok_visa", "tok_decline", "tok_refund_fails_later", "tok_refund_succeeds_later"]
numbers = st.integers(min_value=0, max_value=7)
"""Few keys, so that they meet again: as repeats, as reuses, as undos before and after."""


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    with world_process() as (_, url):
        yield url


class Laws(RuleBasedStateMachine):
    """Calls of all kinds, with few keys and few things; after each the laws are checked on the whole state."""

    http: httpx2.Client

    def __init__(self) -> None:
        super().__init__()
        self.http.post("/reset")
        self.http.post("/seed", json={"stock": {"small": STOCK}})

    def post(self, operation: str, number: int, body: Mapping[str, object]) -> None:
        key = f"{operation}:{number}"
        answer = self.http.post("/" + operation.replace(".", "/"), json=body, headers={"Idempotency-Key": key})
        assert answer.status_code in {200, 400, 402, 404, 409, 500}, answer.text

    def state(self) -> State:
        return State.model_validate_json(self.http.get("/state").content)

    @rule(number=numbers, quantity=st.integers(1, 9))
    def reserve(self, number: int, quantity: int) -> None:
        self.post("inventory.reserve", number, {"plan": "small", "quantity": quantity})

    @rule(number=numbers, amount=st.integers(1, 3), token=st.sampled_from(TOKENS))
    def authorize(self, number: int, amount: int, token: str) -> None:
        self.post("payments.authorize", number, {"amount": amount * 100, "currency": "usd", "token": token})

    @rule(number=numbers, which=numbers, amount=st.one_of(st.none(), st.integers(1, 3)))
    def capture(self, number: int, which: int, amount: int | None) -> None:
        payments = self.state().payments.payments
        if payments:
            payment = payments[which % len(payments)].id
            self.post("payments.capture", number, {"payment_id": payment, "amount": amount and amount * 100})

    @rule(number=numbers, which=numbers, amount=st.integers(1, 3))
    def refund_a_part(self, number: int, which: int, amount: int) -> None:
        payments = self.state().payments.payments
        if payments:
            self.post("payments.refund", number, {"id": payments[which % len(payments)].id, "amount": amount * 50})

    @rule(number=numbers)
    def create_cluster(self, number: int) -> None:
        self.post("cloud.create_cluster", number, {"plan": "small", "region": "eu-west"})

    @rule(number=numbers, which=numbers)
    def create_load_balancer(self, number: int, which: int) -> None:
        clusters = self.state().cloud.clusters
        if clusters:
            self.post("cloud.create_load_balancer", number, {"cluster_id": clusters[which % len(clusters)].id})

    @rule(number=numbers, name=st.sampled_from("ab"))
    def register(self, number: int, name: str) -> None:
        body = {"name": f"{name}.example.com", "values": [f"192.0.2.{number}"], "expected_version": "any"}
        self.post("dns.register", number, body)

    @rule(forward=st.sampled_from(sorted(UNDO_OF)), number=numbers, undo_number=numbers)
    def undo(self, forward: str, number: int, undo_number: int) -> None:
        self.post(UNDO_OF[forward], 100 * (number + 1) + undo_number % 2, {"original_key": f"{forward}:{number}"})

    @rule(number=numbers)
    def refund_by_the_authorisation(self, number: int) -> None:
        self.post("payments.refund", 1000 + number, {"original_key": f"payments.authorize:{number}"})

    @rule(operation=st.sampled_from(sorted(UNDO_OF)), effect=st.sampled_from(["before", "after"]))
    def break_the_next_call(self, operation: str, effect: str) -> None:
        self.http.post("/faults", json={"operation": operation, "kind": "http_500", "effect": effect, "nth": 1})

    @rule(seconds=st.sampled_from([30, 61, 8 * 86_400]))
    def let_time_pass(self, seconds: int) -> None:
        self.http.post("/clock", json={"seconds": seconds})

    @invariant()
    def the_laws_hold(self) -> None:
        state = self.state()
        one_effect_per_key(state)
        stock_is_conserved(state)
        refunds_stay_within_captures(state)
        standing_agrees_with_the_ledger(state)


def one_effect_per_key(state: State) -> None:
    keyed = Counter((row.provider, row.key) for row in state.ledger if row.key is not None)
    assert all(times == 1 for times in keyed.values())


def stock_is_conserved(state: State) -> None:
    units = next(plan.stock for plan in state.inventory.plans if plan.plan == "small")
    held = sum(item.quantity for item in state.inventory.reservations if item.status == "held")
    assert units >= 0
    assert units + held == STOCK


def refunds_stay_within_captures(state: State) -> None:
    for payment in state.payments.payments:
        refunds = [refund for refund in state.payments.refunds if refund.payment_id == payment.id]
        gone = sum(refund.amount for refund in refunds if refund.status != "failed")
        assert gone == payment.amount_refunded <= payment.amount_captured <= payment.amount
        assert gone == -captured(state.ledger, payment.id, "undo")
        assert payment.amount_captured == sum(
            row.amount or 0 for row in state.ledger if row.operation == "payments.capture" and row.id == payment.id
        )


def captured(ledger: list[LedgerEntry], payment: str, direction: str) -> int:
    """Sum of the ledger over a payment's captures: all that moved, or only what was given back."""
    total = 0
    for row in ledger:
        if row.id == payment and row.kind == "capture":
            returned = row.direction == "undo" or row.operation == "payments.refund_failed"
            if direction == "all" or returned:
                total += (row.amount or 0) * (1 if row.direction == "do" else -1)
    return total


def standing_agrees_with_the_ledger(state: State) -> None:
    expected: dict[tuple[str, str], int | None] = {}
    routes: dict[str, int] = Counter()
    for row in state.ledger:
        if row.kind in ("reservation", "cluster", "load_balancer"):
            if row.direction == "do":
                expected[row.kind, row.id] = None
            else:
                del expected[row.kind, row.id]
        elif row.kind == "route":
            routes[row.id] += 1 if row.direction == "do" else -1
    assert set(routes.values()) <= {0, 1}
    for payment in {row.id for row in state.ledger if row.provider == "payments"}:
        rows = [row for row in state.ledger if row.id == payment]
        if any(row.operation == "payments.capture" for row in rows):
            amount = captured(state.ledger, payment, "all")
        else:
            amount = sum((row.amount or 0) * (1 if row.direction == "do" else -1) for row in rows)
        if amount:
            expected["payment", payment] = amount
    standing = {(effect.kind, effect.id): effect.amount for effect in state.standing if effect.kind != "route"}
    assert standing == expected
    written = {route for route, times in routes.items() if times}
    assert {effect.id for effect in state.standing if effect.kind == "route"} <= written


def test_the_laws_of_the_world_hold_whatever_is_called(url: str) -> None:
    with httpx2.Client(base_url=url, timeout=10) as http:

        class Machine(Laws):
            pass

        Machine.http = http
        few = settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            derandomize=True,
            suppress_health_check=[HealthCheck.too_slow],
        )
        run_state_machine_as_test(Machine, settings=few)
