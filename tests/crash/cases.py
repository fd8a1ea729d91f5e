"""The crash matrix's cases: where an order is held, and what then happens to it."""

import zlib
from collections.abc import Iterator
from enum import StrEnum

from countermand.saga.types import Frozen


class Order(StrEnum):
    """Who chooses the order's steps: a fixed plan, or an agent that thinks between them."""

    PLAN = "plan"
    TURN = "turn of an agent"


class Phase(StrEnum):
    """What the order is doing when it is held."""

    FORWARD = "forward"
    UNDO = "undo"
    RECOVERY = "recovery"


class Moment(StrEnum):
    """Where in a call it is held: before its effect, after it but before the acknowledgement, or between two tries.

    ``BETWEEN`` is between workflow tasks: no call runs, and Temporal waits to schedule the next attempt.
    """

    BEFORE = "before"
    AFTER = "after"
    BETWEEN = "between"


class Blow(StrEnum):
    """What happens to the held order."""

    KILL_WORKER = "SIGKILL of the worker"
    STOP_WORKER = "SIGSTOP and SIGCONT of the worker"
    KILL_ALL = "SIGKILL of everything"
    RESTART_TEMPORAL = "restart of Temporal"
    CUT_TEMPORAL = "worker cut off Temporal"
    CUT_WORLD = "worker cut off the world"
    CUT_REDIS = "worker cut off Redis"
    CANCEL = "cancel"
    TERMINATE = "terminate"
    RESET = "reset"
    TIME_OUT = "time-out"


UNSHARED = {Blow.CANCEL, Blow.TERMINATE, Blow.RESET, Blow.TIME_OUT}
"""Blows that strike one order; the others strike all that runs."""

OPERATIONS: dict[int, tuple[str, str | None]] = {
    2: ("inventory.reserve", "inventory.release"),
    3: ("payments.authorize", "payments.void"),
    4: ("cloud.create_cluster", "cloud.terminate_cluster"),
    5: ("cloud.create_load_balancer", "cloud.delete_load_balancer"),
    6: ("cloud.create_load_balancer", "cloud.delete_load_balancer"),
    7: ("dns.register", "dns.unregister"),
    8: ("payments.capture", "payments.refund"),
    9: ("mail.send", None),
}
"""The order's steps that have an effect: the world's operation, and that of its undo."""

CAPTURE, MAIL = 8, 9

_PHASE_OF_FEW = {
    Blow.TERMINATE: Phase.FORWARD,
    Blow.KILL_WORKER: Phase.FORWARD,
    Blow.RESTART_TEMPORAL: Phase.FORWARD,
    Blow.TIME_OUT: Phase.FORWARD,
    Blow.CUT_REDIS: Phase.FORWARD,
    Blow.CANCEL: Phase.UNDO,
    Blow.STOP_WORKER: Phase.UNDO,
    Blow.CUT_TEMPORAL: Phase.UNDO,
    Blow.RESET: Phase.UNDO,
    Blow.KILL_ALL: Phase.RECOVERY,
    Blow.CUT_WORLD: Phase.RECOVERY,
}


class Case(Frozen):
    """One case: a blow that strikes an order while it is held at a point of a step."""

    plan: Order
    step: int
    phase: Phase
    moment: Moment
    blow: Blow

    @property
    def point(self) -> str:
        """Where the order is held."""
        call = {Phase.FORWARD: "", Phase.UNDO: "undo, ", Phase.RECOVERY: "undo in recovery, "}[self.phase]
        moment = {
            Moment.BEFORE: "before the effect",
            Moment.AFTER: "after the effect and before the acknowledgement",
            Moment.BETWEEN: "between workflow tasks",
        }[self.moment]
        return call + moment

    @property
    def name(self) -> str:
        """What the case is called in the journal."""
        return f"{self.plan}, step {self.step}, {self.point}, {self.blow}"

    def seed(self, attempt: int) -> int:
        """The seed of the case's draws; another one each time that the case is tried."""
        return zlib.crc32(f"{self.name} {attempt}".encode())

    @property
    def operation(self) -> str:
        """The world's operation at which the order is held."""
        forward, undo = OPERATIONS[self.step]
        return forward if self.phase is Phase.FORWARD else undo or ""

    @property
    def activity(self) -> str:
        """The id of the Temporal activity that is pending while the order is held."""
        return f"step:{self.step}" if self.phase is Phase.FORWARD else f"step:{self.step}:undo"


def all_cases() -> list[Case]:
    """Every case there is, in a fixed order."""
    return list(_cases())


def few_cases() -> list[Case]:
    """A representative part: every blow at three points of different steps, in one phase."""
    cases = all_cases()
    chosen: list[Case] = []
    for number, (blow, phase) in enumerate(_PHASE_OF_FEW.items()):
        plan = Order.TURN if blow is Blow.CUT_REDIS else Order.PLAN
        mine = [case for case in cases if (case.plan, case.blow, case.phase) == (plan, blow, phase)]
        # A stride that shares no factor with the number of moments walks through all of them.
        chosen += [mine[(number + place * 4) % len(mine)] for place in range(3)]
    return chosen


def _cases() -> Iterator[Case]:
    for blow in Blow:
        for phase in Phase:
            # A recovery has no time-out of its own, and a plan tells nothing to Redis.
            if blow is Blow.CUT_REDIS or (phase is Phase.RECOVERY and blow is Blow.TIME_OUT):
                continue
            for step, (_, undo) in OPERATIONS.items():
                if undo is None and phase is not Phase.FORWARD:
                    continue
                for moment in Moment:
                    # A time-out has run by the time that the pause between two tries is known to have begun.
                    if (moment, blow) == (Moment.BETWEEN, Blow.TIME_OUT):
                        continue
                    yield Case(plan=Order.PLAN, step=step, phase=phase, moment=moment, blow=blow)
        for step in OPERATIONS:
            for moment in (Moment.BEFORE, Moment.AFTER):
                yield Case(plan=Order.TURN, step=step, phase=Phase.FORWARD, moment=moment, blow=blow)
