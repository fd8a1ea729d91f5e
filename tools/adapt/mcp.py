"""``from_mcp``: a tool of an MCP server as a step, undone by another of its tools."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from fastmcp import Client
from fastmcp.client.transports.base import ClientTransportT
from mcp.types import TextContent
from mcp.types import Tool as McpTool
from pydantic import TypeAdapter

from countermand.saga.errors import ToolDeclarationError
from countermand.saga.tool import Tool
from countermand.saga.types import JsonObject
from countermand.tools.adapt.existing import Answer, Args, EffectName, Existing, Probe, SaidNo, adapt

_OBJECT: TypeAdapter[JsonObject] = TypeAdapter(JsonObject)
_ANSWERS_WITHIN = timedelta(seconds=20)
"""How long the server may take to say which tools it has; it may have to be started."""


def from_mcp(
    server: str,
    name: str,
    *,
    effect: EffectName = "compensable",
    compensate: str | None = None,
    probe: Probe[Answer] | None = None,
    start_to_close: timedelta = timedelta(seconds=10),
    fenced: bool = False,
) -> Tool[Args, Answer]:
    """Declare a tool of an MCP server, which is asked now for the schemas of its tools.

    Args:
        server: What ``fastmcp.Client`` takes as text: the server's URL, or the path of its program.
        name: The tool's name there, and here.
        effect: ``read``, ``compensable`` or ``irreversible``.
        compensate: The name of the server's tool that undoes it.
        probe: ``async (call, args) -> Probed[Answer]``; asks by ``call.step_key``.
        start_to_close: Longest time of one attempt.
        fenced: Whether the downstream refuses a late call after its undo.

    Raises:
        ToolDeclarationError: The server does not answer or has no such tool; or the tool could not be undone, and the
            message names the argument that can't be made.
    """
    listed = _list_tools(server, name)
    for wanted in filter(None, (name, compensate)):
        if wanted not in listed:
            raise ToolDeclarationError(f"the MCP server {server} has no tool {wanted!r}; it has {', '.join(listed)}")
    client = Client(server)
    return adapt(
        _existing(server, client, listed[name], start_to_close),
        _existing(server, client, listed[compensate], start_to_close) if compensate else None,
        Answer,
        answers=set(TypeAdapter(list[str]).validate_python((listed[name].output_schema or {}).get("required", []))),
        effect=effect,
        probe=probe,
        start_to_close=start_to_close,
        fenced=fenced,
    )


def _list_tools(server: str, name: str) -> dict[str, McpTool]:
    async def ask() -> list[McpTool]:
        async with asyncio.timeout(_ANSWERS_WITHIN.total_seconds()), Client(server) as client:
            return await client.list_tools()

    # Tools are declared when their module is imported, which may well happen inside a running event loop.
    with ThreadPoolExecutor(max_workers=1) as thread:
        try:
            return {tool.name: tool for tool in thread.submit(asyncio.run, ask()).result()}
        except Exception as error:
            # Whatever a transport raises: without its schemas, nothing can be checked.
            raise ToolDeclarationError(
                f"tool {name!r}: the MCP server {server} does not say which tools it has ({error})"
            ) from error


def _existing(server: str, client: Client[ClientTransportT], tool: McpTool, within: timedelta) -> Existing:
    async def call(args: JsonObject) -> JsonObject:
        async with client:
            answer = await client.call_tool(tool.name, args, timeout=within, raise_on_error=False)
        text = "\n".join(block.text for block in answer.content if isinstance(block, TextContent))
        if answer.is_error:
            raise SaidNo(text)
        return {"result": text} if answer.structured_content is None else answer.structured_content

    return Existing(
        origin=server,
        name=tool.name,
        description=tool.description or tool.name,
        schema=_OBJECT.validate_python(tool.input_schema),
        call=call,
    )
