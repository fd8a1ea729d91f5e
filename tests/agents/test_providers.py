"""The real clients of model providers, over HTTP against a local server that speaks their protocols."""

from collections.abc import AsyncGenerator

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage

from countermand.agents.models import ALLOWED, resolve_model
from countermand.agents.team import ORDER_TEAM
from countermand.agents.think import schemas
from countermand.saga import CauseKind, SagaState
from countermand.testing.env import SagaEnv
from countermand.testing.providers import Provider, serve_provider
from tests.agents.orders import KINDS, TEXT
from tests.saga.orders import standing_kinds

PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}


@pytest.fixture
async def provider(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Provider]:
    async with serve_provider() as served:
        monkeypatch.setenv(ALLOWED, "1")
        monkeypatch.setenv("OPENAI_API_KEY", "nobodys")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{served.url}/v1")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "nobodys")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", served.url)
        yield served


def model_at(kind: str, provider: Provider) -> str:
    """A name of its own: workers keep a model's client by its name, and with it the server's address."""
    return f"{kind}:test-{provider.url.rpartition(':')[2]}"


@pytest.mark.parametrize("kind", PATHS)
async def test_a_providers_model_places_an_order_and_its_tokens_are_counted(
    saga_env: SagaEnv, provider: Provider, kind: str
) -> None:
    model = model_at(kind, provider)
    result = await (await saga_env.start_turn(TEXT, model=model)).result()

    assert result.saga.state is SagaState.COMMITTED
    assert await standing_kinds(saga_env) == KINDS
    assert set(provider.asked) == {f"{PATHS[kind]} {model.partition(':')[2]}"}
    used = result.usage[model]
    assert used.requests == len(provider.asked)
    assert (used.input_tokens, used.output_tokens) == (50 * used.requests, 10 * used.requests)


@pytest.mark.parametrize("kind", PATHS)
async def test_a_providers_answer_is_streamed_with_its_calls(provider: Provider, kind: str) -> None:
    model = resolve_model(model_at(kind, provider)).bind_tools(schemas(ORDER_TEAM.entry, {}))
    whole: AIMessageChunk | None = None
    async for chunk in model.astream([HumanMessage(TEXT)]):
        assert isinstance(chunk, AIMessageChunk)
        whole = chunk if whole is None else whole + chunk

    assert whole is not None
    assert [call["name"] for call in whole.tool_calls] == ["quote_order"]
    assert whole.tool_calls[0]["args"]["hostname"] == "ada.example.dev"
    assert provider.asked[0].endswith(" stream")


async def test_a_provider_that_is_away_ends_the_turn_with_one_clear_line(
    saga_env: SagaEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_provider() as gone:
        pass
    monkeypatch.setenv(ALLOWED, "1")
    monkeypatch.setenv("OPENAI_API_KEY", "nobodys")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{gone.url}/v1")
    result = await (await saga_env.start_turn(TEXT, model=model_at("openai", gone))).result()

    assert result.saga.cause is not None
    assert result.saga.cause.kind is CauseKind.MODEL
    assert "the model could not be asked" in result.text
    assert await saga_env.world.ledger() == []
