"""A provider's model as users ask it: the real command, the real client, over HTTP to a local server."""

import json
from collections.abc import AsyncGenerator

import pytest

from countermand.agents.models import ALLOWED
from countermand.cli import main
from countermand.testing.providers import Provider, serve_provider
from countermand.testing.worlds import WorldUnderTest
from tests.countermand.embedded.commands import Commands
from tests.e2e.test_chat import ORDER, kinds
from tests.saga.orders import EFFECTS


@pytest.fixture(scope="module")
async def provider() -> AsyncGenerator[Provider]:
    async with serve_provider() as served:
        yield served


@pytest.fixture(scope="module")
def asking(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Commands:
    """Commands, and servers that they start, for whom OpenAI is the local server."""
    folder = tmp_path_factory.mktemp("providers")
    prices = folder / "prices.yaml"
    prices.write_text("openai:gpt-local: {input: 1.25, output: 10}\n")
    environment = {
        ALLOWED: "1",
        "OPENAI_API_KEY": "nobodys",
        "OPENAI_BASE_URL": f"{provider.url}/v1",
        "COUNTERMAND_MODEL_PRICES": str(prices),
        "COUNTERMAND_MODEL_RATE": "50",
    }
    return Commands(folder / "state", environment)


@pytest.fixture(scope="module")
async def served(asking: Commands) -> AsyncGenerator[WorldUnderTest]:
    async with asking.up() as running:
        yield WorldUnderTest(running.endpoints.world_url)


async def test_a_providers_model_places_an_order_and_its_words_are_shown_as_they_come(
    asking: Commands, served: WorldUnderTest, provider: Provider
) -> None:
    async with asking.in_terminal("chat", "--model", "openai:gpt-local", "--yes") as terminal:
        await terminal.shows("you> ")
        terminal.type(ORDER + "\n")
        await terminal.shows("Placed:")
        await terminal.shows("you> ")
        terminal.type("\x04")
        assert await terminal.process.wait() == 0

    assert set(provider.asked) == {"/v1/chat/completions gpt-local stream"}
    assert kinds(await served.state()) == sorted(EFFECTS)


async def test_what_a_provider_has_said_is_shown_while_it_speaks(
    asking: Commands, served: WorldUnderTest, provider: Provider
) -> None:
    async with asking.in_terminal("chat", "--model", "openai:gpt-local") as terminal:
        await terminal.shows("you> ")
        provider.goes_on.clear()
        terminal.type("who are you?\n")
        await terminal.shows("Countermand's stub model")
        assert "two load balancers" not in terminal.shown
        provider.goes_on.set()
        await terminal.shows("two load balancers")
        await terminal.shows("you> ")
        terminal.type("\x04")
        assert await terminal.process.wait() == 0
    assert (await served.state()).ledger


async def test_what_it_used_and_what_that_cost_is_told(asking: Commands, served: WorldUnderTest) -> None:
    await served.reset()
    ran = await asking.run("chat", "--model", "openai:gpt-local", "--yes", "-m", ORDER, "--json")
    turn = json.loads(ran.out)
    shown = await asking.run("saga", "show", turn["saga"]["id"], "--json")
    read = await asking.run("saga", "show", turn["saga"]["id"])

    used = turn["usage"]["openai:gpt-local"]
    requests = used["requests"]
    assert (used["input_tokens"], used["output_tokens"]) == (50 * requests, 10 * requests)
    assert used["cost"]["currency"] == "usd"
    assert float(used["cost"]["amount"]) == pytest.approx(requests * 0.0001625)
    assert json.loads(shown.out)["usage"] == turn["usage"]
    assert f"openai:gpt-local: {requests} requests, {50 * requests:,} tokens in" in read.out


def test_a_model_whose_key_is_missing_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(ALLOWED, "1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    assert main.run(["chat", "--model", "openai:gpt-5", "-m", "hello"]) == 2

    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: --model: openai:gpt-5: set OPENAI_API_KEY where the worker runs")
    assert told.err.count("\n") == 1
