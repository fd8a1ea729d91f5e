"""Tools of a real MCP server: checked at registration, then steps and their undos in sagas."""

from collections.abc import AsyncGenerator, Generator

import pytest
from fastmcp import Client as McpClient
from pydantic import ValidationError
from temporalio.client import Client

from countermand.saga import PlannedStep, SagaState, ToolDeclarationError
from countermand.saga.types import Compensation, JsonObject, Outcome, ProbeAnswer, Probed, StepReport, ToolCall
from countermand.testing.contract import check_tool
from countermand.testing.env import SagaEnv
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.adapt import Answer, from_mcp
from countermand.tools.adapt.existing import Args

from .served import served
from .shop import Shop, open_shop

REFUSED = PlannedStep(tool="reserve_stock", args={"quote_id": "no-such-quote"})
"""A step that fails for good."""


@pytest.fixture(scope="module")
def opened() -> Generator[Shop]:
    with open_shop() as shop:
        yield shop


@pytest.fixture
def shop(opened: Shop) -> Shop:
    opened.paid, opened.books, opened.buried = {}, [], set()
    opened.loses_answers, opened.down = 0, False
    return opened


@pytest.fixture
async def adapted(shop: Shop, temporal_local: Client, world: WorldUnderTest) -> AsyncGenerator[SagaEnv]:
    """The shop's tools are declared, and served."""

    async def find(call: ToolCall, _args: JsonObject) -> Probed[Answer]:
        async with McpClient(shop.url) as mcp:
            answer = await mcp.call_tool("find_charge", {"idempotency_key": call.step_key})
        found: JsonObject = answer.structured_content or {}
        if found["payment_id"] is None:
            return Probed(ProbeAnswer.NOT_LANDED)
        return Probed(ProbeAnswer.LANDED, Answer.model_validate(found))

    from_mcp(shop.url, "charge", compensate="refund_charge", fenced=True)
    from_mcp(shop.url, "charge_in_words", compensate="refund_charge", probe=find, fenced=True)
    async with served(temporal_local, world) as env:
        yield env


def ended(step: StepReport) -> tuple[str, Outcome | None, Compensation]:
    return step.tool, step.outcome, step.compensation


async def test_two_tools_of_a_server_run_as_a_step_and_its_undo(adapted: SagaEnv, shop: Shop) -> None:
    report = await adapted.run_plan(PlannedStep(tool="charge", args={"amount": 149}), REFUSED)

    key = f"{report.id}:1"
    assert report.state is SagaState.COMPENSATED
    assert ended(report.steps[0]) == ("charge", Outcome.DONE, Compensation.DONE)
    assert shop.books == [(key, "do"), (f"{key}:undo", "undo")]
    assert shop.paid == {}


async def test_a_committed_charge_stands(adapted: SagaEnv, shop: Shop) -> None:
    report = await adapted.run_plan(PlannedStep(tool="charge", args={"amount": 149}))

    assert report.state is SagaState.COMMITTED
    assert shop.paid == {f"pay-{report.id}:1": 149}


async def test_a_charge_whose_answer_was_lost_is_repeated_under_its_key(adapted: SagaEnv, shop: Shop) -> None:
    shop.loses_answers = 1

    report = await adapted.run_plan(PlannedStep(tool="charge", args={"amount": 149}))

    assert report.state is SagaState.COMMITTED
    assert len(shop.books) == 1


async def test_a_charge_whose_outcome_stays_unknown_is_undone_by_its_key(adapted: SagaEnv, shop: Shop) -> None:
    shop.loses_answers = 3

    report = await adapted.run_plan(PlannedStep(tool="charge", args={"amount": 149}))

    assert ended(report.steps[0]) == ("charge", Outcome.UNKNOWN, Compensation.DONE)
    assert shop.paid == {}


async def test_a_no_that_the_probe_confirms_is_a_refusal_with_the_servers_words(adapted: SagaEnv) -> None:
    report = await adapted.run_plan(PlannedStep(tool="charge_in_words", args={"amount": 5000}))

    assert ended(report.steps[0]) == ("charge_in_words", Outcome.REFUSED, Compensation.NONE)
    assert report.cause is not None
    assert "too much for this card" in report.cause.message


async def test_an_adapted_tool_keeps_the_contract_where_its_server_does(shop: Shop) -> None:
    tool = from_mcp(shop.url, "charge", compensate="refund_charge", fenced=True)

    async def sample() -> Args:
        return tool.args.model_validate({"amount": 149})

    assert await check_tool(tool, sample, shop) == []


@pytest.mark.usefixtures("adapted")
async def test_the_model_neither_sees_nor_gives_the_key(shop: Shop) -> None:
    tool = from_mcp(shop.url, "charge", compensate="refund_charge", fenced=True)

    assert list(tool.args.model_json_schema()["properties"]) == ["amount"]
    with pytest.raises(ValidationError, match="'idempotency_key' was unexpected"):
        tool.args.model_validate({"amount": 1, "idempotency_key": "mine"})


async def test_wrong_arguments_are_refused_with_the_field_before_any_call(shop: Shop) -> None:
    tool = from_mcp(shop.url, "charge", compensate="refund_charge")

    with pytest.raises(ValidationError, match="amount: 'much' is not of type 'integer'"):
        tool.args.model_validate({"amount": "much"})
    assert shop.books == []


@pytest.mark.parametrize(
    ("name", "compensate", "message"),
    [
        (
            "charge_in_words",
            "refund_payment",
            "needs 'payment_id', which is neither an argument of the call that is always given nor a field of its",
        ),
        ("charge", "refund_payment", "needs 'payment_id' from the answer, but of a call whose outcome is unknown"),
        ("charge", None, "tool 'charge' is compensable but has no compensation"),
        ("charge", "refund", "has no tool 'refund'; it has charge, charge_once"),
        ("pay", "refund_charge", "has no tool 'pay'"),
    ],
)
def test_what_could_not_be_undone_is_refused_at_registration(
    shop: Shop, name: str, compensate: str | None, message: str
) -> None:
    with pytest.raises(ToolDeclarationError, match=message):
        from_mcp(shop.url, name, compensate=compensate)


def test_a_server_that_does_not_answer_is_named() -> None:
    with pytest.raises(ToolDeclarationError, match=r"the MCP server http://127\.0\.0\.1:9/mcp does not say"):
        from_mcp("http://127.0.0.1:9/mcp", "charge", compensate="refund_charge")


def test_a_tool_that_takes_no_key_and_has_no_probe_is_never_repeated(shop: Shop) -> None:
    once = from_mcp(shop.url, "charge_once", compensate="refund_charge")

    assert once.policy.max_attempts == 1
