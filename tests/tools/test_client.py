"""What the client makes of providers that are not there, or speak in tongues."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from countermand.saga.errors import ToolRefused, ToolUnavailable
from countermand.testing.worlds import WorldUnderTest
from countermand.tools import client
from countermand.tools.world.models.inventory import Catalogue, Quote


async def ask() -> Quote:
    return await client.read("inventory.get_quote", Quote, id="quo_1")


@asynccontextmanager
async def provider_that_answers(raw: bytes) -> AsyncGenerator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_tool_that_knows_no_providers_says_how_to_name_them() -> None:
    with pytest.raises(ToolRefused, match="providers_at"):
        await ask()


async def test_a_provider_that_is_not_there_is_unavailable() -> None:
    async with client.providers_at("http://127.0.0.1:9"):
        with pytest.raises(ToolUnavailable, match=r"inventory\.get_quote: no answer"):
            await ask()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nnot json", "can't be understood"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"id": 1}', "can't be understood"),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>", "HTTP 502"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\ncut", "no answer"),
        (b"this is not HTTP\r\n\r\n", "no answer"),
    ],
)
async def test_an_answer_that_makes_no_sense_may_hide_an_effect(raw: bytes, expected: str) -> None:
    async with provider_that_answers(raw) as url, client.providers_at(url):
        with pytest.raises(ToolUnavailable, match=expected):
            await ask()


async def test_the_providers_named_last_are_called_until_their_context_ends() -> None:
    body = b'{"error": {"type": "t", "code": "inner", "message": "no quote."}}'
    not_found = b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    async with (
        provider_that_answers(not_found) as url,
        client.providers_at("http://127.0.0.1:9"),
    ):
        async with client.providers_at(url):
            with pytest.raises(client.Refused, match="no quote") as refused:
                await ask()
            assert refused.value.code == "inner"
        with pytest.raises(ToolUnavailable):
            await ask()


async def test_calls_that_were_cancelled_leave_the_next_one_its_connection(world: WorldUnderTest) -> None:
    async with client.providers_at(world.url):
        for moment in range(20):
            # More than there are connections: some calls have one, some wait, and some are about to be given one.
            calls = [asyncio.create_task(client.read("inventory.catalog", Catalogue)) for _ in range(200)]
            await asyncio.wait(calls, timeout=moment / 1000)
            for call in calls[:100]:
                call.cancel()
            await asyncio.wait(calls, timeout=moment / 3000)
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)

        assert (await client.read("inventory.catalog", Catalogue)).plans


@pytest.mark.parametrize(("said", "seconds"), [("7", 7), ("86400", 60), ("9" * 400, 60)])
async def test_a_provider_is_waited_for_as_it_asks_up_to_a_minute(said: str, seconds: int) -> None:
    raw = f"HTTP/1.1 503 Service Unavailable\r\nRetry-After: {said}\r\nContent-Length: 0\r\n\r\n".encode()
    async with provider_that_answers(raw) as url, client.providers_at(url):
        with pytest.raises(ToolUnavailable) as caught:
            await ask()

    assert caught.value.retry_after == timedelta(seconds=seconds)
