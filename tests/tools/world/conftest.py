"""One world for all tests of a worker, emptied before each."""

from collections.abc import AsyncGenerator

import httpx2
import pytest

from countermand.tools.world.server import World, serve_world

from .caller import Caller


@pytest.fixture(scope="session")
async def served() -> AsyncGenerator[World]:
    async with serve_world() as world:
        yield world


@pytest.fixture
async def world(served: World) -> AsyncGenerator[Caller]:
    limits = httpx2.Limits(max_connections=100)
    async with httpx2.AsyncClient(base_url=served.url, timeout=10, limits=limits) as http:
        (await http.post("/reset")).raise_for_status()
        yield Caller(http)
