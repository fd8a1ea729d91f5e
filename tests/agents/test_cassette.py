"""Cassettes: recorded through a real client, replayed without its server, and strict about what is asked."""

from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages import ToolCall as ModelCall
from pydantic import BaseModel

from countermand.agents.cassette import Cassette, CassetteMiss, CassetteModel, cassette_at
from countermand.agents.models import ALLOWED, ModelUnavailable, resolve_model
from countermand.saga import SagaState
from countermand.testing.env import SagaEnv
from countermand.testing.providers import serve_provider
from tests.agents.openai_server import SECRET, OpenAIServer, openai_server
from tests.agents.orders import TEXT


class QuoteOrder(BaseModel):
    """Quote an order."""

    plan: str


class Pay(BaseModel):
    """Pay it."""


ASKED: list[BaseMessage] = [SystemMessage("You take orders."), HumanMessage("A small one,\nplease")]


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Callable[[OpenAIServer], str]:
    """Lets the real client ask a local server; answers the model's name."""

    def use(server: OpenAIServer) -> str:
        monkeypatch.setenv(ALLOWED, "1")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        return "openai:gpt-test"

    return use


@pytest.fixture
def recorded(tmp_path: Path, provider: Callable[[OpenAIServer], str]) -> Path:
    """A cassette of one exchange, whose server is off."""
    path = tmp_path / "tape" / "one.jsonl"
    with openai_server() as server:
        ask(f"cassette:{path}?mode=once&model={provider(server)}")
    return path


def ask(
    name: str, messages: list[BaseMessage] | None = None, tools: tuple[type[BaseModel], ...] = (QuoteOrder,)
) -> AIMessage:
    return resolve_model(name).bind_tools(tools).invoke(messages or ASKED)


def test_a_cassette_recorded_through_the_real_client_replays_with_its_server_off(recorded: Path) -> None:
    answer = ask(f"cassette:{recorded}")

    assert answer.text == "Quote 1"
    assert [(call["name"], call["args"]) for call in answer.tool_calls] == [("QuoteOrder", {"plan": "small"})]
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["total_tokens"] == 7


def test_neither_keys_nor_headers_nor_the_providers_metadata_are_kept(recorded: Path) -> None:
    text = recorded.read_text()

    assert "A small one" in text
    assert not [word for word in (SECRET, "Bearer", "req_of_the_provider", "fp_of_the_provider") if word in text]


def test_a_request_that_was_not_recorded_is_told_with_its_difference_from_the_nearest(recorded: Path) -> None:
    with pytest.raises(CassetteMiss) as miss:
        ask(f"cassette:{recorded}", [ASKED[0], HumanMessage("A large one,\nplease")])

    assert "-human.content: A small one,\n+human.content: A large one," in str(miss.value)
    assert "mode=all" in str(miss.value)


def test_other_tools_are_another_request(recorded: Path) -> None:
    with pytest.raises(CassetteMiss, match=r"\+tool Pay"):
        ask(f"cassette:{recorded}", tools=(QuoteOrder, Pay))


def test_what_is_new_with_each_run_makes_no_other_request(recorded: Path) -> None:
    messages = [SystemMessage("You take orders.", id="run-1"), HumanMessage("A small one,\nplease", id="run-2")]

    assert ask(f"cassette:{recorded}", [*messages]).text == "Quote 1"


def test_once_records_a_cassette_that_is_not_there_and_never_again(
    recorded: Path, provider: Callable[[OpenAIServer], str]
) -> None:
    with openai_server() as server:
        answer = ask(f"cassette:{recorded}?mode=once&model={provider(server)}")

    assert (answer.text, server.asked) == ("Quote 1", 0)


def test_all_records_anew(recorded: Path, provider: Callable[[OpenAIServer], str]) -> None:
    with openai_server() as server:
        ask(f"cassette:{recorded}?mode=all&model={provider(server)}", [HumanMessage("Hello")])

    assert server.asked == 1
    assert len(recorded.read_text().splitlines()) == 1
    assert "Hello" in recorded.read_text()


def test_an_exchange_that_nobody_asks_for_is_stale(tmp_path: Path, provider: Callable[[OpenAIServer], str]) -> None:
    path = tmp_path / "two.jsonl"
    with openai_server() as server:
        model = resolve_model(f"cassette:{path}?mode=once&model={provider(server)}")
        model.invoke(ASKED)
        model.invoke([HumanMessage("Hello")])
    cassette_at.cache_clear()

    resolve_model(f"cassette:{path}").invoke(ASKED)

    assert [exchange.messages[-1]["content"] for exchange in cassette_at(path).unused()] == ["Hello"]


def test_the_fixture_names_the_model_of_a_cassette(recorded: Path, cassette: Callable[[Path], str]) -> None:
    assert ask(cassette(recorded)).text == "Quote 1"


def test_an_edited_request_is_told(recorded: Path) -> None:
    recorded.write_text(recorded.read_text().replace("small one", "large one"))
    cassette_at.cache_clear()

    with pytest.raises(ModelUnavailable, match="line 1: its request was changed"):
        resolve_model(f"cassette:{recorded}")


async def test_a_whole_turn_recorded_through_the_real_client_replays_with_its_server_off(
    saga_env: SagaEnv, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "turn.jsonl"
    async with serve_provider() as served:
        monkeypatch.setenv(ALLOWED, "1")
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{served.url}/v1")
        recorded = await saga_env.start_turn(TEXT, model=f"cassette:{path}?mode=once&model=openai:test-turn")
        assert (await recorded.result()).saga.state is SagaState.COMMITTED
    first = await saga_env.world.done()
    await saga_env.world.reset()
    cassette_at.cache_clear()

    replayed = await (await saga_env.start_turn(TEXT, model=f"cassette:{path}")).result()

    assert replayed.saga.state is SagaState.COMMITTED
    assert await saga_env.world.done() == first
    assert cassette_at(path).unused() == []
    clusters = [effect.id for effect in await saga_env.world.standing() if effect.kind == "cluster"]
    assert clusters[0] in replayed.text


def of_order(order_id: str, says: str) -> list[BaseMessage]:
    """A conversation in which a tool answered."""
    call = ModelCall(name="QuoteOrder", args={"plan": "small"}, id="call_1", type="tool_call")
    told = ToolMessage(f'{{"order_id": "{order_id}", "says": "{says}"}}', tool_call_id="call_1", name="QuoteOrder")
    return [*ASKED, AIMessage("", tool_calls=[call]), told]


def record_of(path: Path, messages: list[BaseMessage], answer: AIMessage) -> str:
    """A cassette of one exchange; answers its model's name."""
    behind = GenericFakeChatModel(messages=iter([answer]))
    CassetteModel(cassette=Cassette(path), behind=behind).invoke(messages)
    return f"cassette:{path}"


def test_an_id_of_today_stands_for_the_recorded_one_in_request_and_answer(tmp_path: Path) -> None:
    call = ModelCall(name="Pay", args={"order": "ord_0a1b2c3d"}, id="call_2", type="tool_call")
    said = AIMessage("Paying ord_0a1b2c3d.", tool_calls=[call])
    model = resolve_model(record_of(tmp_path / "ids.jsonl", of_order("ord_0a1b2c3d", "quoted"), said))

    answer = model.invoke(of_order("ord_9f8e7d6c", "quoted"))

    assert isinstance(answer, AIMessage)
    assert answer.text == "Paying ord_9f8e7d6c."
    assert answer.tool_calls[0]["args"] == {"order": "ord_9f8e7d6c"}


def test_what_a_tool_said_otherwise_is_another_request(tmp_path: Path) -> None:
    model = resolve_model(record_of(tmp_path / "ids.jsonl", of_order("ord_0a1b2c3d", "quoted"), AIMessage("Good.")))

    with pytest.raises(CassetteMiss, match='"order_id": "<minted 1>", "says": "sold out"'):
        model.invoke(of_order("ord_9f8e7d6c", "sold out"))


def test_an_id_that_the_customer_named_counts_to_the_letter(tmp_path: Path) -> None:
    def about(order_id: str) -> list[BaseMessage]:
        return [*of_order(order_id, "quoted"), HumanMessage(f"Pay {order_id}")]

    model = resolve_model(record_of(tmp_path / "ids.jsonl", about("ord_0a1b2c3d"), AIMessage("Good.")))

    with pytest.raises(CassetteMiss):
        model.invoke(about("ord_9f8e7d6c"))


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("", "there is no cassette"),
        ("?mode=once", "model: mode=once records, so name whom"),
        ("?mode=twice", "mode: Input should be 'none', 'once' or 'all'"),
        ("?speed=2", "speed: Extra inputs are not permitted"),
    ],
)
def test_a_name_that_can_not_work_is_refused_in_one_line(tmp_path: Path, query: str, complaint: str) -> None:
    with pytest.raises(ModelUnavailable, match=complaint):
        resolve_model(f"cassette:{tmp_path / 'absent.jsonl'}{query}")


def test_a_real_model_is_refused_in_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelUnavailable, match="forbidden here"):
        resolve_model("openai:gpt-test")

    monkeypatch.setenv(ALLOWED, "1")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert resolve_model("openai:gpt-test").get_name() == "ChatOpenAI"
