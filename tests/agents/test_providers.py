"""The real clients of model providers, over HTTP against a local server that speaks their protocols."""

from collections.abc import AsyncGenerator, Callable
from decimal import Decimal
from pathlib import Path

import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage

from countermand.agents.answers import normalised
from countermand.agents.models import ALLOWED, TIMEOUT, ModelUnavailable, check_provider, resolve_model
from countermand.agents.scripted import RawCall, ScriptedModel, ScriptStep
from countermand.agents.team import ORDER_TEAM
from countermand.agents.think import schemas
from countermand.agents.usage import Cost, PricesInvalid, Usage, load_prices, usage_of
from countermand.saga import CauseKind, SagaState
from countermand.testing.env import SagaEnv
from countermand.testing.providers import Provider, serve_provider
from tests.agents.orders import KINDS, TEXT
from tests.saga.orders import standing_kinds

PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages", "ollama": "/api/chat"}


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Provider], None]:
    """Lets the real clients ask a local server."""

    def at(provider: Provider) -> None:
        monkeypatch.setenv(ALLOWED, "1")
        monkeypatch.setenv("OPENAI_API_KEY", "nobodys")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "nobodys")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        monkeypatch.setenv("OLLAMA_HOST", provider.url)

    return at


@pytest.fixture
async def provider(use: Callable[[Provider], None]) -> AsyncGenerator[Provider]:
    async with serve_provider() as served:
        use(served)
        yield served


def model_at(kind: str, provider: Provider) -> str:
    """A name of its own: workers keep a model's client by its name, and with it the server's address."""
    return f"{kind}:test-{provider.url.rpartition(':')[2]}"


async def streamed(name: str) -> AIMessageChunk:
    """A model's answer to an order, its pieces put together."""
    model = resolve_model(name).bind_tools(schemas(ORDER_TEAM.entry, {}))
    whole: AIMessageChunk | None = None
    async for chunk in model.astream([HumanMessage(TEXT)]):
        assert isinstance(chunk, AIMessageChunk)
        whole = chunk if whole is None else whole + chunk
    assert whole is not None
    return whole


@pytest.mark.parametrize("kind", PATHS)
async def test_a_providers_model_places_an_order_and_its_tokens_are_counted(
    saga_env: SagaEnv, provider: Provider, kind: str
) -> None:
    model = model_at(kind, provider)
    result = await (await saga_env.start_turn(TEXT, model=model)).result()

    assert result.saga.state is SagaState.COMMITTED
    assert await standing_kinds(saga_env) == KINDS
    assert {asked.removesuffix(" stream") for asked in provider.asked} == {f"{PATHS[kind]} {model.partition(':')[2]}"}
    used = result.usage[model]
    assert used.requests == len(provider.asked)
    assert (used.input_tokens, used.output_tokens) == (50 * used.requests, 10 * used.requests)


@pytest.mark.parametrize("kind", PATHS)
async def test_a_providers_answer_is_streamed_with_its_calls_and_its_usage(provider: Provider, kind: str) -> None:
    thought = normalised(await streamed(model_at(kind, provider)), prompt="", turn_length=1, price=None)

    (call,) = thought.message.tool_calls
    assert (call["name"], call["args"]["hostname"]) == ("quote_order", "ada.example.dev")
    assert (thought.malformed, thought.usage) == ({}, Usage(requests=1, input_tokens=50, output_tokens=10))
    assert provider.asked[0].endswith(" stream")


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("args", ['{"plan": "medium", "region": "eu', "[1]", "{'plan': 'medium'}"])
async def test_arguments_that_are_cut_off_in_a_stream_are_not_mended_but_malformed(
    use: Callable[[Provider], None], kind: str, args: str
) -> None:
    answers = ScriptStep(raw_calls=(RawCall(tool="quote_order", args=args),))
    async with serve_provider(ScriptedModel(steps=(answers,))) as served:
        use(served)
        thought = normalised(await streamed(model_at(kind, served)), prompt="", turn_length=1, price=None)

    (call,) = thought.message.tool_calls
    assert (call["name"], call["args"]) == ("quote_order", {})
    assert list(thought.malformed) == [call["id"]]


async def test_a_provider_that_fails_for_a_while_is_asked_again_and_by_nobody_but_temporal(
    saga_env: SagaEnv, provider: Provider
) -> None:
    provider.failures += [503, 429]
    model = model_at("openai", provider)
    result = await (await saga_env.start_turn(TEXT, model=model)).result()

    assert result.saga.state is SagaState.COMMITTED
    assert len(provider.asked) == result.usage[model].requests + 2


@pytest.mark.parametrize("kind", PATHS)
async def test_a_provider_that_refuses_is_asked_once(saga_env: SagaEnv, provider: Provider, kind: str) -> None:
    provider.failures += [401]
    result = await (await saga_env.start_turn(TEXT, model=model_at(kind, provider))).result()

    assert len(provider.asked) == 1
    assert result.saga.cause is not None
    assert result.saga.cause.kind is CauseKind.MODEL
    assert "told to fail" in result.text
    assert await saga_env.world.ledger() == []


async def test_a_provider_that_is_away_ends_the_turn_with_one_clear_line(
    saga_env: SagaEnv, use: Callable[[Provider], None]
) -> None:
    async with serve_provider() as gone:
        use(gone)
    result = await (await saga_env.start_turn(TEXT, model=model_at("openai", gone))).result()

    assert result.saga.cause is not None
    assert result.saga.cause.kind is CauseKind.MODEL
    assert "the model could not be asked" in result.text
    assert await saga_env.world.ledger() == []


@pytest.mark.parametrize("kind", PATHS)
async def test_a_provider_that_says_no_more_is_given_up_and_asked_again(
    saga_env: SagaEnv, provider: Provider, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TIMEOUT, "0.5")
    provider.goes_on.clear()
    result = await (await saga_env.start_turn(TEXT, model=model_at(kind, provider))).result()

    assert len(provider.asked) == 3
    assert result.saga.cause is not None
    assert result.saga.cause.kind is CauseKind.MODEL
    assert await saga_env.world.ledger() == []


@pytest.mark.parametrize("said", ["0", "81", "soon"])
def test_a_time_out_that_is_none_is_one_line(monkeypatch: pytest.MonkeyPatch, provider: Provider, said: str) -> None:
    monkeypatch.setenv(TIMEOUT, said)

    with pytest.raises(ModelUnavailable, match=TIMEOUT):
        resolve_model(model_at("openai", provider))


def test_a_provider_without_its_key_is_refused_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED, "1")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)

    check_provider("ollama:qwen3")
    with pytest.raises(ModelUnavailable, match="anthropic:claude-x: set ANTHROPIC_API_KEY"):
        check_provider("anthropic:claude-x")


async def test_what_an_answer_used_costs_what_the_price_list_says(provider: Provider, tmp_path: Path) -> None:
    name = model_at("openai", provider)
    listed = tmp_path / "prices.yaml"
    listed.write_text(f"{name}: {{input: 1.25, output: 10}}\n")
    answer = await streamed(name)

    used = usage_of(answer, load_prices(listed).get(name))
    unknown = usage_of(answer, load_prices(None).get(name))

    assert used.cost == Cost(amount=Decimal("0.0001625"), currency="usd")
    assert used.plus(used).cost == Cost(amount=Decimal("0.000325"), currency="usd")
    assert (unknown.input_tokens, unknown.cost) == (50, None)


def test_a_price_list_that_says_something_wrong_is_one_line_with_the_field(tmp_path: Path) -> None:
    listed = tmp_path / "prices.yaml"
    listed.write_text("openai:gpt-5: {input: -1, output: 10}\n")

    with pytest.raises(PricesInvalid, match=r"prices\.yaml: openai:gpt-5: input: Input should be greater"):
        load_prices(listed)
