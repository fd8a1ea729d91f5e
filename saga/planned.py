"""``PlannedSaga``: a fixed plan, no LLM, as one saga."""

import asyncio
from collections.abc import Collection

from pydantic import BaseModel, Field, JsonValue, ValidationError
from temporalio import workflow

from countermand.saga.errors import SagaFailed, SagaRolledBack
from countermand.saga.ledger import Step
from countermand.saga.tool import AnyTool, declared
from countermand.saga.transaction import transaction
from countermand.saga.types import Cause, CauseKind, Effect, Frozen, SagaOptions, SagaReport


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
                _check(plan.groups(), tools)
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


def _check(groups: list[tuple[PlannedStep, ...]], tools: list[list[AnyTool]]) -> None:
    """Refuse, before the first effect, a plan that can't be carried out to its end.

    Raises:
        SagaFailed: The message names the step's tool, the field and the reason.
    """
    before: list[AnyTool] = []
    for group, its_tools in zip(groups, tools, strict=True):
        for step, tool in zip(group, its_tools, strict=True):
            pivot = next((other for other in before if other.effect is Effect.IRREVERSIBLE), None)
            if pivot is not None and tool.effect is Effect.COMPENSABLE:
                raise _invalid(f"the plan calls {tool.name} after {pivot.name}, which can't be undone: put that last")
            for source in step.results.values():
                for step_no, name in source if isinstance(source, list) else [source]:
                    if not 1 <= step_no <= len(before) or name not in _fields(before[step_no - 1]):
                        raise _invalid(
                            f"the plan's call of {tool.name} takes {name!r} from step {step_no}, "
                            "which has no such result before"
                        )
            _validated(tool, step.args, filled_later=step.results)
        before += its_tools


def _fields(tool: AnyTool) -> set[str]:
    return {*tool.result.model_fields, *tool.result.model_computed_fields}


def _args(step: PlannedStep, tool: AnyTool, done: list[Step]) -> BaseModel:
    """A step's arguments, filled from earlier results and validated."""
    filled: dict[str, JsonValue] = dict(step.args)
    for name, source in step.results.items():
        filled[name] = [_result(done, *one) for one in source] if isinstance(source, list) else _result(done, *source)
    _validated(tool, filled)
    return tool.args.model_validate(filled)


def _validated(tool: AnyTool, args: dict[str, JsonValue], filled_later: Collection[str] = ()) -> None:
    try:
        tool.args.model_validate(args)
    except ValidationError as error:
        for one in error.errors():
            if not one["loc"] or one["loc"][0] not in filled_later:
                where = ".".join(str(part) for part in one["loc"]) or "arguments"
                raise _invalid(f"the plan's call of {tool.name}: {where}: {one['msg']}") from error


def _result(done: list[Step], step_no: int, name: str) -> JsonValue:
    return (done[step_no - 1].result or {})[name]


def _invalid(message: str) -> SagaFailed:
    return SagaFailed(Cause(kind=CauseKind.INVALID, message=message))
