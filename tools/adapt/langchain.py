"""``from_langchain``: a langchain tool as a step, undone by another one."""

import inspect
from collections.abc import Mapping
from datetime import timedelta

from langchain_core.tools import BaseTool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, TypeAdapter

from countermand.saga.tool import Tool
from countermand.saga.types import JsonObject
from countermand.tools.adapt.existing import Answer, Args, EffectName, Existing, Probe, ResultT, SaidNo, adapt

_OBJECT: TypeAdapter[JsonObject] = TypeAdapter(JsonObject)


def from_langchain(
    tool: BaseTool,
    *,
    result: type[ResultT] = Answer,
    effect: EffectName = "compensable",
    compensate: BaseTool | None = None,
    probe: Probe[ResultT] | None = None,
    start_to_close: timedelta = timedelta(seconds=10),
    fenced: bool = False,
) -> Tool[Args, ResultT]:
    """Declare a langchain tool; what it raises as ``ToolException`` is its no, anything else is no answer.

    Args:
        tool: The tool.
        result: The model of its answer, whose fields its compensation may take; langchain tools declare none.
        effect: ``read``, ``compensable`` or ``irreversible``.
        compensate: The tool that undoes it.
        probe: ``async (call, args) -> Probed[result]``; asks by ``call.step_key``.
        start_to_close: Longest time of one attempt.
        fenced: Whether the downstream refuses a late call after its undo.

    Raises:
        ToolDeclarationError: It could not be undone; the message names the argument that can't be made.
    """
    return adapt(
        _existing(tool),
        _existing(compensate) if compensate else None,
        result,
        answers={name for name, field in result.model_fields.items() if field.is_required()},
        effect=effect,
        probe=probe,
        start_to_close=start_to_close,
        fenced=fenced,
    )


def _existing(tool: BaseTool) -> Existing:
    async def call(args: JsonObject) -> JsonObject:
        try:
            answer: object = await tool.ainvoke(args)
        except ToolException as error:
            raise SaidNo(str(error)) from error
        if isinstance(answer, BaseModel):
            return answer.model_dump(mode="json")
        return _OBJECT.validate_python(answer if isinstance(answer, Mapping) else {"result": answer})

    function = getattr(tool, "coroutine", None) or getattr(tool, "func", None) or type(tool)
    return Existing(
        origin=f"{inspect.getmodule(function)}.{getattr(function, '__qualname__', tool.name)}",
        name=tool.name,
        description=tool.description,
        schema=_OBJECT.validate_python(convert_to_openai_tool(tool)["function"]["parameters"]),
        call=call,
    )
