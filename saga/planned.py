"""``PlannedSaga``: a fixed plan, no LLM, as one saga."""

import asyncio

from pydantic import BaseModel, Field, JsonValue, ValidationError
from temporalio import workflow

from countermand.saga.errors import SagaFailed, SagaRolledBack
from countermand.saga.ledger import Step
from countermand.saga.tool import AnyTool, declared
from countermand.saga.transaction import transaction
from countermand.saga.types import Cause, CauseKind, Frozen, JsonObject, SagaOptions, SagaReport


class PlannedStep(Frozen):
    """One tool call of a plan.

    ``args`` are given as they are; ``results`` fill an argument from a field of an earlier step's result, by the
    earlier step's number: ``{"payment_id": (2, "payment_id")}``; a list of such pairs fills a list.
    """

    tool: str
    args: dict[str, JsonValue] = Field(default_factory=dict)
    results: dict[str, tuple[int, str] | list[tuple[int, str]]] = Field(default_factory=dict)


class Plan(Frozen):
    """Steps in order; the steps of an inner tuple run side by side. Steps are numbered from 1 as they are written."""

    steps: tuple[PlannedStep | tuple[PlannedStep, ...], ...] = Field(min_length=1)
    options: SagaOptions = SagaOptions()

    def groups(self) -> list[tuple[PlannedStep, ...]]:
        """The steps as groups that run one after the other."""
        return [(step,) if isinstance(step, PlannedStep) else step for step in self.steps]


@workflow.defn
class PlannedSaga:
    """Runs a plan; a step that is refused or fails rolls everything back. Always answers with the saga's report."""

    @workflow.run
    async def run(self, plan: Plan) -> SagaReport:
        """Run the plan to a committed or a rolled-back end."""
        try:
            async with transaction(plan.options) as saga:
                tools = [[_tool_of(step) for step in group] for group in plan.groups()]
                for group, its_tools in zip(plan.groups(), tools, strict=True):
                    done = saga.steps.copy()
                    args = [_args(step, tool, done) for step, tool in zip(group, its_tools, strict=True)]
                    steps = [saga.register(tool, given) for tool, given in zip(its_tools, args, strict=True)]
                    for step in steps:
                        saga.launch(step)
                    await asyncio.gather(*(saga.finish(step) for step in steps))
        except SagaRolledBack as error:
            return error.report
        # Not from within: where a saga that was cancelled behind its pivot commits, the block ends without a value.
        return saga.report()


def _tool_of(step: PlannedStep) -> AnyTool:
    tool = declared().get(step.tool)
    if tool is None:
        raise _invalid(f"the plan names an unknown tool: {step.tool!r}")
    return tool


def _args(step: PlannedStep, tool: AnyTool, done: list[Step]) -> BaseModel:
    """A step's arguments, filled from earlier results and validated."""
    filled: dict[str, JsonValue] = dict(step.args)
    for name, source in step.results.items():
        filled[name] = [_result(done, *one) for one in source] if isinstance(source, list) else _result(done, *source)
    try:
        return tool.args.model_validate(filled)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "arguments"
        raise _invalid(f"the plan's call of {tool.name}: {where}: {first['msg']}") from error


def _result(done: list[Step], step_no: int, name: str) -> JsonValue:
    result: JsonObject | None = done[step_no - 1].result if 1 <= step_no <= len(done) else None
    if result is None or name not in result:
        raise _invalid(f"the plan takes {name!r} from step {step_no}, which has no such result before")
    return result[name]


def _invalid(message: str) -> SagaFailed:
    return SagaFailed(Cause(kind=CauseKind.INVALID, message=message))
