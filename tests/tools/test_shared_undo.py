"""One compensation for several tools: annotated with base classes, called with each tool's own arguments."""

import pytest
from pydantic import BaseModel

from countermand.saga import PlannedStep, SagaState, ToolDeclarationError, ToolRefused
from countermand.saga.types import Frozen, ProbeAnswer, Probed, ToolCall, Undone
from countermand.testing.env import SagaEnv
from countermand.tools.tool import tool

UNDONE: dict[str, object] = {}
"""By the step's key: what the compensation was called with."""


class Hang(Frozen):
    picture: str


class Paint(Frozen):
    wall: str


class Done(Frozen):
    what: str


async def take_back(call: ToolCall, args: BaseModel, result: BaseModel | None) -> Undone:
    UNDONE[call.step_key] = (args, result)
    return Undone(effective=True)


async def nobody_knows(_call: ToolCall, _args: BaseModel) -> Probed[Done]:
    return Probed(ProbeAnswer.UNKNOWN)


@tool(effect="compensable", compensate=take_back, probe=nobody_knows)
async def hang_picture(_call: ToolCall, args: Hang) -> Done:
    return Done(what=args.picture)


@tool(effect="compensable", compensate=take_back, probe=nobody_knows)
async def paint_wall(_call: ToolCall, args: Paint) -> Done:
    return Done(what=args.wall)


@tool(effect="read")
async def look_around(_call: ToolCall, _args: Paint) -> Done:
    raise ToolRefused("it is dark")


async def test_each_step_is_undone_with_its_own_arguments_and_result(saga_env: SagaEnv) -> None:
    report = await saga_env.run_plan(
        PlannedStep(tool="hang_picture", args={"picture": "Mona"}),
        PlannedStep(tool="paint_wall", args={"wall": "north"}),
        PlannedStep(tool="look_around", args={"wall": "north"}),
    )

    assert report.state is SagaState.COMPENSATED
    assert [UNDONE[step.key] for step in report.steps[:2]] == [
        (Hang(picture="Mona"), Done(what="Mona")),
        (Paint(wall="north"), Done(what="north")),
    ]


async def take_back_a_painting(_call: ToolCall, _args: Paint, _result: Done | None) -> Undone:
    return Undone(effective=True)


async def take_back_what_is_known(_call: ToolCall, _args: BaseModel, _result: BaseModel) -> Undone:
    return Undone(effective=True)


@pytest.mark.parametrize(
    ("compensation", "complaint"),
    [
        (take_back_a_painting, "'take_back_a_painting' wants _args: Paint, but the call was made with Hang"),
        (take_back_what_is_known, "there is no result: annotate it Done | None"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_a_compensation_that_can_not_take_the_call_is_refused(compensation: object, complaint: str) -> None:
    async def hang_it(_call: ToolCall, args: Hang) -> Done:
        return Done(what=args.picture)

    declare = tool(effect="compensable", compensate=compensation, probe=nobody_knows)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType] - what the type checker refuses too
    with pytest.raises(ToolDeclarationError, match=complaint):
        declare(hang_it)
