"""The world as an ASGI application."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from countermand.tools.world import control
from countermand.tools.world.endpoint import Endpoint
from countermand.tools.world.errors import Refusal
from countermand.tools.world.simulation import OPERATIONS, Simulation


def create_app(db: Path | None) -> FastAPI:
    """The world over a database file, or over one in memory for ``None``."""
    simulation = Simulation(db)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        yield
        simulation.close()

    app = FastAPI(title="Countermand's world", lifespan=lifespan)
    app.state.simulation = simulation
    app.include_router(control.router)
    for operation in OPERATIONS.values():
        app.add_api_route(
            operation.path,
            Endpoint(simulation, operation),
            methods=[operation.method],
            name=operation.name,
            response_model=None,
            tags=[operation.provider],
        )
    app.add_exception_handler(Refusal, _answer_refusal)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http_error)
    return app


async def _answer_refusal(_request: Request, error: Exception) -> Response:
    if not isinstance(error, Refusal):
        raise error
    return Response(error.body.model_dump_json(), error.status, media_type="application/json")


async def _answer_invalid(request: Request, error: Exception) -> Response:
    """One line that names each wrong field and says why."""
    if not isinstance(error, RequestValidationError):
        raise error
    problems = [
        f"{'.'.join(str(part) for part in problem['loc'][1:]) or 'body'}: {problem['msg']}"
        for problem in error.errors()
    ]
    return await _answer_refusal(request, Refusal(422, "parameter_invalid", "; ".join(problems)))


async def _answer_http_error(request: Request, error: Exception) -> Response:
    """No such path, or not with that method."""
    if not isinstance(error, HTTPException):
        raise error
    refusal = Refusal(error.status_code, "unknown_operation", f"{request.url.path}: {error.detail}.")
    return await _answer_refusal(request, refusal)
