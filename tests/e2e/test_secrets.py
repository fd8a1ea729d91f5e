"""Secrets that are seeded into runs on real servers are found nowhere afterwards (I11)."""

import base64
import json
import os
import uuid
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
from fastmcp import Client as Mcp
from fastmcp.client.auth import BearerAuth
from fastmcp.client.transports import ClientTransport
from redis.asyncio import Redis
from temporalio.client import Client

from countermand.agents.scripted import ScriptCall, ScriptStep
from countermand.agents.team import ORDER_TEAM
from countermand.client import connect
from countermand.encryption import KEY_FILE, decrypt_within, load_cipher
from countermand.plugin import CountermandPlugin
from countermand.testing.providers import Provider, serve_provider
from countermand.testing.waiting import until
from tests.countermand.embedded.commands import Commands, Ran, Running
from tests.e2e.leaky import CARD_TOKEN, CUSTOMER

ORDER = f"a small environment in eu-west for {CUSTOMER} at ada.example.dev, card tok_visa"
CARD_NUMBER = "4242 4242 4242 4242"
TYPED_KEY = "sk_live_typed0123456789abcdef"
API_KEY = "sk-seeded-0123456789abcdef"
COMPLAINT = "Incorrect API key provided"
MCP_TOKEN = "seeded mcp token 0123456789"  # noqa: S105 - nobody's
TEMPORAL_KEY = "seeded temporal key 0123456789"

NEVER = (API_KEY, CARD_NUMBER, CARD_NUMBER.replace(" ", ""), TYPED_KEY, MCP_TOKEN, TEMPORAL_KEY)
"""Not even who holds the payload key finds these."""

ENCRYPTED = (CARD_TOKEN, "tok_visa")
"""What calls and their failures hold."""


@pytest.fixture(scope="module")
async def provider() -> AsyncGenerator[Provider]:
    async with serve_provider() as served:
        yield served


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Commands:
    """Commands with a payload key, tools that leak, and secrets in their environment."""
    folder = tmp_path_factory.mktemp("secrets") / "state"
    folder.mkdir()
    (folder / KEY_FILE).write_bytes(base64.b64encode(os.urandom(32)))
    environment = {
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "COUNTERMAND_TOOLS": "tests.e2e.leaky",
        "COUNTERMAND_TOKEN": MCP_TOKEN,
        "COUNTERMAND_ALLOW_MODEL_REQUESTS": "1",
        "TEMPORAL_API_KEY": TEMPORAL_KEY,
        "OPENAI_API_KEY": API_KEY,
        "OPENAI_BASE_URL": f"{provider.url}/v1",
    }
    return Commands(folder, environment)


@pytest.fixture(scope="module")
async def servers(seeded: Commands) -> AsyncGenerator[Running]:
    async with seeded.up() as running:
        yield running


async def converse(commands: Commands, *arguments: str) -> Ran:
    return await commands.run("chat", "--yes", "--json", "--session", f"s-{uuid.uuid4().hex[:8]}", *arguments)


async def order_with_a_card_number_and_a_key(commands: Commands) -> None:
    ran = await converse(commands, "-m", f"{ORDER}. My card is {CARD_NUMBER}, my key {TYPED_KEY}")
    assert ran.code == 0, ran
    assert "left out of your message" in ran.err


async def tools_that_leak(commands: Commands, folder: Path, script: Callable[..., str]) -> None:
    (agent,) = ORDER_TEAM.agents
    leaky = agent.model_copy(update={"tools": (*agent.tools, "look_up_card", "check_card")})
    team = folder / "leaky.yaml"
    team.write_text(ORDER_TEAM.model_copy(update={"agents": (leaky,)}).model_dump_json())
    model = script(
        ScriptStep(calls=(ScriptCall(tool="look_up_card", args={"email": CUSTOMER}),)),
        ScriptStep(calls=(ScriptCall(tool="check_card", args={"reference": "{{look_up_card.reference}}"}),)),
        ScriptStep(say="That card does not work."),
    )
    ran = await converse(commands, "--team", str(team), "--model", model, "-m", f"is the card of {CUSTOMER} good?")
    assert "That card does not work." in ran.out, ran


async def a_provider_that_repeats_the_key(commands: Commands, provider: Provider) -> None:
    provider.failures.append(401)
    provider.complaint = f"{COMPLAINT}: {API_KEY}"
    ran = await converse(commands, "--model", "openai:gpt-test", "-m", ORDER)
    assert ran.code == 3, ran


async def a_fact_with_a_card_number(commands: Commands, session: str) -> None:
    process = await commands.start("cache", "serve", "--transport", "http", "--port", "0", "--json")
    assert process.stdout is not None
    try:
        url = json.loads(await process.stdout.readline())["url"]
        async with Mcp[ClientTransport](url, auth=BearerAuth(MCP_TOKEN)) as mcp:
            fact = {"session": session, "name": "card", "expected_version": 0}
            refused = await mcp.call_tool("put_fact", {**fact, "value": CARD_NUMBER}, raise_on_error=False)
            await mcp.call_tool("put_fact", {**fact, "value": CARD_TOKEN})
            await mcp.call_tool("get_facts", {"session": session})
    finally:
        process.terminate()
        await process.communicate()
    assert "store a reference" in str(refused.content)


async def histories(client: Client) -> dict[str, bytes]:
    """Every history, its events as Temporal has them or, for a client with the key, in clear."""
    codec = client.data_converter.payload_codec
    found: dict[str, bytes] = {}
    async for execution in client.list_workflows():
        history = await client.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history()
        if codec is not None:
            for event in history.events:
                await decrypt_within(event, codec)
        found[f"history {execution.id}"] = b"".join(event.SerializeToString() for event in history.events)
    return found


async def redis_keys(url: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    async with Redis.from_url(url) as redis:
        keys: list[bytes] = [key async for key in redis.scan_iter()]  # pyright: ignore[reportUnknownVariableType] - redis types it loosely
        for key in keys:
            stream = await redis.type(key) == b"stream"
            value = await redis.xrange(key) if stream else await redis.get(key)
            found[f"redis {key}"] = repr((key, value)).encode()
    return found


def files(folder: Path, *patterns: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for pattern in patterns for path in folder.glob(pattern)}


def found_in(places: dict[str, bytes], *wanted: str) -> set[tuple[str, str]]:
    return {(place, word) for place, content in places.items() for word in wanted if word.encode() in content}


async def test_seeded_secrets_are_in_no_history_cache_log_or_audit_and_the_address_in_no_log_or_audit(
    seeded: Commands, servers: Running, provider: Provider, tmp_path: Path, script: Callable[..., str]
) -> None:
    await order_with_a_card_number_and_a_key(seeded)
    await tools_that_leak(seeded, tmp_path, script)
    await a_provider_that_repeats_the_key(seeded, provider)
    endpoints = servers.endpoints
    cipher = load_cipher(seeded.folder, {})
    holder = await connect(endpoints, CountermandPlugin(cipher=cipher))
    sessions = [one.id async for one in holder.list_workflows("WorkflowType = 'ChatSession'")]
    await a_fact_with_a_card_number(seeded, sessions[0])
    exported = Ran(None, "", "")

    async def all_audited() -> bool:
        nonlocal exported
        exported = await seeded.run("audit", "export")
        return exported.code == 0 and all(f"{session}/t1" in exported.out for session in sessions)

    await until(all_audited, deadline=60)
    logs = files(seeded.folder, "logs/*")
    audit = {"export": exported.out.encode(), **files(seeded.folder, "audit*")}
    stranger = await Client.connect(endpoints.temporal_host, namespace=endpoints.namespace)
    kept = {
        **await histories(stranger),
        **await redis_keys(endpoints.redis_url),
        **files(seeded.folder, "temporal.db*"),
    }

    in_clear = await histories(holder)
    assert {word for _, word in found_in(in_clear, *ENCRYPTED, CUSTOMER)} == {*ENCRYPTED, CUSTOMER}
    assert found_in(in_clear, *NEVER) == set()
    assert found_in(in_clear, COMPLAINT)
    assert {"redis b'cm:{default/" in place for place in kept if place.startswith("redis")} == {True}
    assert found_in(kept, *NEVER, *ENCRYPTED) == set()
    assert b"was refused to [secret left out]" in b"".join(logs.values())
    assert found_in(logs | audit, *NEVER, *ENCRYPTED, CUSTOMER) == set()
