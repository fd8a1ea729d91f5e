"""The one way in: every operation is served by an ``Endpoint``, and faults strike here and nowhere else."""

import asyncio
import socket
import struct
from inspect import Parameter, Signature
from typing import Annotated, cast

from fastapi import Body, Header, Query, Request, Response
from pydantic import BaseModel

from countermand.tools.world.faults import WIRE_KINDS, Fault
from countermand.tools.world.idempotency import Reply, fingerprint
from countermand.tools.world.operations import Operation
from countermand.tools.world.simulation import Simulation

_NO_LINGER = struct.pack("ii", 1, 0)


class Endpoint:
    """Serves one operation; FastAPI reads ``__signature__`` to validate the request before it gets here."""

    def __init__(self, simulation: Simulation, operation: Operation) -> None:
        self._simulation = simulation
        self._operation = operation
        place = Body() if operation.method == "POST" else Query()
        parameters = [
            Parameter("request", Parameter.KEYWORD_ONLY, annotation=Request),
            Parameter("body", Parameter.KEYWORD_ONLY, annotation=Annotated[operation.body, place]),
        ]
        if operation.effect:
            header = Header(alias="Idempotency-Key", min_length=1, max_length=255)
            parameters.append(Parameter("key", Parameter.KEYWORD_ONLY, annotation=Annotated[str, header]))
        self.__signature__ = Signature(parameters)
        self.__name__ = operation.name

    async def __call__(self, *, request: Request, body: BaseModel, key: str = "") -> Response:
        """Answer one call."""
        if not self._operation.effect:
            return await self._answer(request, body, key)
        with self._simulation.claim(self._operation, key, fingerprint(self._operation, body)):
            return await self._answer(request, body, key)

    async def _answer(self, request: Request, body: BaseModel, key: str) -> Response:
        fault = self._simulation.next_fault(self._operation.name, key)
        if fault is None:
            return _response(self._simulation.execute(self._operation, key, body))
        if fault.kind in WIRE_KINDS:
            if fault.effect == "after":
                self._simulation.execute(self._operation, key, body)
            return await self._cut(request, fault)
        if fault.kind == "slow":
            return await self._slowly(request, body, key, fault)
        reply = fault.reply()
        if fault.effect == "after":
            reply = self._simulation.execute(self._operation, key, body, spoilt=reply)
        return _response(reply)

    async def _slowly(self, request: Request, body: BaseModel, key: str, fault: Fault) -> Response:
        # The wait does not end when the client goes away: what it gave up on still happens, late.
        reply = None
        world = self._simulation.generation
        if fault.effect == "after":
            reply = self._simulation.execute(self._operation, key, body)
        try:
            await asyncio.wait_for(self._simulation.closing.wait(), fault.delay_s)
        except TimeoutError:
            # A world that was emptied meanwhile is another one: what was meant for the old does not happen in it.
            if world == self._simulation.generation:
                return _response(reply or self._simulation.execute(self._operation, key, body))
        return await self._cut(request, fault)

    async def _cut(self, request: Request, fault: Fault) -> Response:
        """Give no answer: at once for ``drop`` and ``reset``, else when the client leaves or the world stops."""
        transport = cast("asyncio.Transport", request.state.transport)
        gone = asyncio.ensure_future(_gone(request))
        if fault.kind not in ("drop", "reset"):
            closing = asyncio.ensure_future(self._simulation.closing.wait())
            await asyncio.wait((gone, closing), return_when=asyncio.FIRST_COMPLETED)
            closing.cancel()
        if fault.kind == "reset":
            connection = cast("socket.socket", transport.get_extra_info("socket"))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        transport.abort()
        await gone
        # The connection is gone, so this goes nowhere; without it the server would report a defect.
        return Response()


async def _gone(request: Request) -> None:
    """Wait until the connection is lost. The body has been read: nothing else can come from it."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _response(reply: Reply) -> Response:
    return Response(reply.content, reply.status, reply.headers, media_type="application/json")
