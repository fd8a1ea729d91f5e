"""The dry run: what the agents would do, step by step, with nothing done."""

import json
from dataclasses import dataclass, field

from pydantic import BaseModel, JsonValue

from countermand.agents.guard import Verdict
from countermand.saga import ToolRefused
from countermand.saga.approvals import undo_in_words
from countermand.saga.calls import call_price
from countermand.saga.tool import AnyTool
from countermand.saga.types import Effect, Frozen, JsonObject, Money


class PlanLine(Frozen):
    """One step that would be run. Behind the point of no return a saga goes forward only.

    ``asks`` is the guard's rule by which a person would have to agree first.
    """

    no: int
    agent: str
    tool: str
    args: JsonObject
    price: Money | None
    undo: str
    asks: str | None
    point_of_no_return: bool


@dataclass
class DryRun:
    """The plan so far."""

    plan: list[PlanLine] = field(default_factory=list)

    async def imagine(self, tool: AnyTool, args: BaseModel, verdict: Verdict) -> str:
        """Note a call in the plan; answers what the model is told in place of a result."""
        given: JsonObject = args.model_dump(mode="json")
        try:
            price = await call_price(tool, given)
        except ToolRefused:
            price = None
        pivots = tool.effect is Effect.IRREVERSIBLE and not any(one.point_of_no_return for one in self.plan)
        line = PlanLine(
            no=len(self.plan) + 1,
            agent=verdict.agent,
            tool=tool.name,
            args=given,
            price=price,
            undo=undo_in_words(tool),
            asks=verdict.rule if verdict.verdict == "needs_approval" else None,
            point_of_no_return=pivots,
        )
        self.plan.append(line)
        fields: dict[str, JsonObject] = tool.result.model_json_schema().get("properties", {})
        return json.dumps({name: _imagined(schema, line.no) for name, schema in fields.items()})


def _imagined(schema: JsonObject, no: int) -> JsonValue:
    """A value of about the right form; ids of imagined things say so."""
    empty: dict[str, JsonValue] = {"integer": 0, "number": 0, "boolean": False, "array": [], "string": f"planned-{no}"}
    return empty.get(str(schema.get("type", "")), {})
