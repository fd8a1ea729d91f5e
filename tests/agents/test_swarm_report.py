"""What a swarm's report tells: the sums of the sagas, as JSON, as CSV and as a page that carries everything itself."""

import csv
import io
import uuid
from html.parser import HTMLParser

import pytest
from langchain_core.messages import ToolMessage
from typing_extensions import override

from countermand.agents import swarms
from countermand.agents.agent_saga import TurnResult
from countermand.agents.batch import Line
from countermand.agents.lines import HOLDS, TAKES, moved
from countermand.agents.pages import ref_to
from countermand.agents.report import ReportLine, SwarmReport, read_report, summed
from countermand.agents.swarm import SwarmState
from countermand.cli.swarm_pages import as_csv, as_html
from countermand.saga import Cause, CauseKind, SagaReport, SagaState
from countermand.saga.types import Compensation, Outcome, Residual, StepReport
from countermand.testing.env import SagaEnv

WORDS = "a small environment in eu-west for ada@example.com at ada.example.dev"


def line(number: int, state: SagaState, **more: object) -> ReportLine:
    given: dict[str, object] = {
        "number": number,
        "id": f"l{number}",
        "saga": f"b/l{number}",
        "attempt": 1,
        "state": state,
        "text": WORDS,
        "cause": None,
        "tool": "",
        "seconds": number / 4,
        "taken": {"usd": 6_700},
        "returned": {},
        "residuals": (),
    }
    return ReportLine.model_validate(given | more)


@pytest.fixture
def report() -> SwarmReport:
    refused = Cause(kind=CauseKind.REFUSED, step_no=7, message="no <route> & no mail")
    left = Residual(step_no=4, key="b/l3:4", tool="provision_cluster", message="a cluster stands")
    lines = [
        line(1, SagaState.COMMITTED),
        line(2, SagaState.COMPENSATED, cause=refused, tool="register_domain_route", returned={"usd": 6_700}),
        line(3, SagaState.NEEDS_ATTENTION, cause=refused, tool="register_domain_route", taken={}, residuals=(left,)),
        line(4, SagaState.COMMITTED, text="=HYPERLINK(1)"),
    ]
    return summed("b", lines, [], total=5)


def test_the_sums_add_up(report: SwarmReport) -> None:
    assert {state: sums.lines for state, sums in report.states.items()} == {
        SagaState.COMMITTED: 2,
        SagaState.COMPENSATED: 1,
        SagaState.NEEDS_ATTENTION: 1,
    }
    total = report.total
    assert (total.taken, total.returned, total.standing) == ({"usd": 20_100}, {"usd": 6_700}, {"usd": 13_400})
    assert report.states[SagaState.COMPENSATED].standing == {}
    (failures,) = report.failures
    assert (failures.tool, failures.kind, failures.lines) == ("register_domain_route", CauseKind.REFUSED, 2)
    assert report.waiting == 1


def test_the_csv_has_a_row_a_line_and_no_formula(report: SwarmReport) -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(report))))
    assert [row["state"] for row in rows] == ["committed", "compensated", "needs_attention", "committed"]
    assert sum(int(row["taken"]) - int(row["returned"]) for row in rows) == report.total.standing["usd"]
    assert rows[3]["text"] == "'=HYPERLINK(1)"


class Page(HTMLParser):
    """What a browser would find."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    @override
    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_carries_everything_itself(report: SwarmReport) -> None:
    page = Page(as_html(report))
    assert not [tag for tag, _ in page.found if tag in {"script", "link", "img", "iframe", "route"}]
    assert not [attrs for _, attrs in page.found if attrs.keys() & {"src", "href", "onload"}]
    assert [tag for tag, _ in page.found].count("rect") == 4
    assert "134.00 USD" in page.text
    assert "no <route> & no mail" in page.text
    assert "countermand saga resolve b/l3 4 --retry" in page.text


def test_a_page_of_a_batch_that_has_not_begun_says_so(report: SwarmReport) -> None:
    empty = summed("b", [], [], total=3)
    assert "No line has ended" in as_html(empty)
    assert "not ended3100.0%" in Page(as_html(empty)).text
    assert report.lines


@pytest.mark.parametrize(
    ("captured", "capture_undo", "hold_undo", "money"),
    [
        (Outcome.DONE, Compensation.NONE, Compensation.NONE, (6_700, 0)),
        (Outcome.DONE, Compensation.DONE, Compensation.NOOP, (6_700, 6_700)),
        (Outcome.DONE, Compensation.FAILED, Compensation.DONE, (6_700, 6_700)),
        (Outcome.DONE, Compensation.FAILED, Compensation.FAILED, (6_700, 0)),
        (Outcome.UNKNOWN, Compensation.DONE, Compensation.NOOP, (6_700, 6_700)),
        (Outcome.UNKNOWN, Compensation.NOOP, Compensation.DONE, (0, 0)),
        (Outcome.REFUSED, Compensation.NONE, Compensation.DONE, (0, 0)),
    ],
)
def test_money_is_what_was_captured_less_what_either_undo_gave_back(
    captured: Outcome, capture_undo: Compensation, hold_undo: Compensation, money: tuple[int, int]
) -> None:
    total = '{"total": {"amount": 6700, "currency": "usd"}}'
    made = ((HOLDS, Outcome.DONE, hold_undo), (TAKES, captured, capture_undo))
    steps = tuple(
        StepReport(no=no, key=f"b/l:{no}", agent=None, tool=tool, outcome=outcome, compensation=undo, undo_no=None)
        for no, (tool, outcome, undo) in enumerate(made, start=1)
    )
    answers = [ToolMessage(total, name=tool, tool_call_id=tool) for tool, outcome, _ in made if outcome is Outcome.DONE]
    saga = SagaReport(id="b/l", state=SagaState.COMMITTED, steps=steps)
    taken, returned = moved(TurnResult(session=None, turn=1, saga=saga, messages=[*answers]))
    assert (taken.get("usd", 0), returned.get("usd", 0)) == money


async def test_the_report_of_a_batch_is_what_the_worlds_ledger_says_of_all_attempts(saga_env: SagaEnv) -> None:
    world = saga_env.world
    await world.fault("mail.send", "decline", times=1)
    await world.fault("dns.register", "decline", nth=2)
    orders = [Line(number=n, id=f"l{n}", text=WORDS.replace("ada.ex", f"h{n}.ex")) for n in range(1, 5)]
    batch = f"batch-{uuid.uuid4().hex[:12]}"
    ref, _ = ref_to(batch, orders)
    state = SwarmState(batch=ref, model="stub", options=saga_env.options, concurrency=1)
    await swarms.begin(saga_env.client, batch, orders, state, task_queue=saga_env.task_queue)
    await swarms.handle_of(saga_env.client, batch).result()
    first = await read_report(saga_env.client, batch)
    assert [line.id for line in first.lines] == ["l1", "l2", "l3", "l4"]
    told = {(one.tool, one.kind, one.lines, one.message) for one in first.failures}
    assert told == {
        ("send_confirmation", CauseKind.ABORTED, 1, "send_confirmation: mail.send: declined"),
        ("register_domain_route", CauseKind.ABORTED, 1, "register_domain_route: dns.register: declined"),
    }

    await swarms.go_on(saga_env.client, batch, retry=True, task_queue=saga_env.task_queue)
    await swarms.handle_of(saga_env.client, batch).result()
    report = await read_report(saga_env.client, batch)
    ledger = await world.ledger()
    assert report.total.taken["usd"] == sum(one.amount or 0 for one in ledger if one.operation == "payments.capture")
    gone = sum(one.amount or 0 for one in ledger if one.operation == "payments.refund")
    assert report.total.returned["usd"] == gone > 0
    assert report.states.keys() == {SagaState.COMMITTED}
    assert sorted(line.attempt for line in report.lines) == [1, 1, 2, 2]
