"""The stub at work: it quotes, places when it is told to, stops when it is refused, and is the same each time."""

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    message_chunk_to_message,
)
from langchain_core.messages.ai import add_ai_message_chunks

from countermand.agents.models import ALLOWED, ModelUnavailable, check_model_name, resolve_model
from countermand.agents.team import ORDER_TEAM, REMINDER
from tests.agents.counter import Counter

ORDER = "a medium environment in eu-west for ada@example.com at ada.example.dev, two load balancers"
PLACING = [
    ["reserve_stock"],
    ["authorize_payment"],
    ["provision_cluster"],
    ["create_load_balancer", "create_load_balancer"],
    ["register_domain_route"],
    ["capture_payment"],
    ["send_confirmation"],
    ["commit"],
]


def test_a_quote_tells_its_lines_its_total_and_what_yes_does() -> None:
    turn = Counter().say(ORDER)

    assert turn.tools == [["quote_order"]]
    assert "medium environment" in turn.text
    assert "185.00 USD" in turn.text
    assert "Say yes" in turn.text


@pytest.mark.parametrize(
    "word",
    ["yes", "Yes!", "go ahead", "place it", "ok do it", "sure, please do", "looks good, place the order", "I confirm"],
)
def test_an_order_is_placed_when_it_is_confirmed(word: str) -> None:
    counter = Counter()
    counter.say(ORDER)

    assert counter.say(word).tools == PLACING


def test_ids_come_from_what_the_tools_answered() -> None:
    counter = Counter()
    counter.say(ORDER)
    turn = counter.say("yes")

    assert turn.calls == [
        [("reserve_stock", {"quote_id": "quo_1"})],
        [("authorize_payment", {"quote_id": "quo_1"})],
        [("provision_cluster", {"quote_id": "quo_1"})],
        [("create_load_balancer", {"cluster_id": "clu_4"})] * 2,
        [("register_domain_route", {"hostname": "ada.example.dev", "load_balancer_ids": ["lb_5", "lb_6"]})],
        [("capture_payment", {"payment_id": "pay_3"})],
        [("send_confirmation", {"quote_id": "quo_1"})],
        [("commit", {})],
    ]
    for told in ("Placed: 1 medium in eu-west", "185.00 USD", "clu_4", "lb_5 and lb_6", "pay_3", "ada@example.com"):
        assert told in turn.text


def test_one_that_is_confirmed_in_advance_is_quoted_and_placed_in_one_turn() -> None:
    assert Counter(confirmed=True).say(ORDER).tools == [["quote_order"], *PLACING]


@pytest.mark.parametrize("word", ["yes, charge tok_mastercard", "use tok_mastercard, go ahead"])
def test_the_card_that_the_customer_names_is_charged(word: str) -> None:
    counter = Counter()
    counter.say(ORDER)

    charged = ("authorize_payment", {"quote_id": "quo_1", "card_token": "tok_mastercard"})
    assert [charged] in counter.say(word).calls


@pytest.mark.parametrize(
    "word",
    [
        "no",
        "not yet",
        "cancel",
        "wait",
        "yes?",
        "ok, what does it cost?",
        "yes but not yet",
        "thanks",
        "don't place it",
        "ok, two please",
        "yes, 3",
    ],
)
def test_what_is_no_clear_yes_places_nothing(word: str) -> None:
    counter = Counter()
    counter.say(ORDER)
    turn = counter.say(word)

    assert turn.calls == []
    assert "placed" in turn.text


@pytest.mark.parametrize("change", ["make it huge", "small or large?", "two load balancers or three load balancers"])
def test_a_yes_after_a_change_that_could_not_be_made_places_nothing(change: str) -> None:
    counter = Counter()
    counter.say(ORDER)
    counter.say(change)

    assert [name for names in counter.say("yes").tools for name in names if name != "quote_order"] == []


@pytest.mark.parametrize("text", [f"don't order {ORDER}", f"please do not order {ORDER} before I say so"])
def test_what_must_not_be_ordered_is_not(text: str) -> None:
    assert Counter(confirmed=True).say(text).calls == []


def test_who_asks_for_the_price_is_told_it_also_when_all_is_confirmed_in_advance() -> None:
    turn = Counter(confirmed=True).say(f"How much would {ORDER} cost?")

    assert turn.tools == [["quote_order"]]
    assert "185.00 USD" in turn.text


def test_a_yes_after_giving_up_places_nothing() -> None:
    counter = Counter()
    counter.say(ORDER)
    counter.say("never mind")

    assert counter.say("yes").calls == []


def test_the_same_words_after_a_placed_order_are_a_second_order() -> None:
    counter = Counter()
    counter.say(ORDER)
    counter.say("yes")
    again = counter.say(ORDER)
    placed = counter.say("yes")

    assert again.tools == [["quote_order"]]
    assert placed.tools == PLACING
    assert placed.calls[0] == [("reserve_stock", {"quote_id": "quo_11"})]


def test_a_whole_order_after_a_quote_takes_nothing_over_from_it() -> None:
    counter = Counter()
    counter.say(ORDER)

    other = counter.say("a small environment in us-east for bob@example.com at bob.example.dev")
    assert [one.load_balancers for one in other.quoted] == [1]


@pytest.mark.parametrize(
    "tool", ["reserve_stock", "authorize_payment", "create_load_balancer", "capture_payment", "send_confirmation"]
)
def test_a_refused_step_ends_in_abort_with_the_reason(tool: str) -> None:
    turn = Counter(confirmed=True, refuse={tool: "card_declined: ask for another card"}).say(ORDER)

    assert turn.calls[-2][0][0] == tool
    assert turn.calls[-1] == [("abort", {"reason": "card_declined: ask for another card"})]


def test_one_refused_call_among_several_in_a_message_ends_in_abort_too() -> None:
    counter = Counter()
    counter.say(ORDER)
    counter.say("yes")
    # As the engine answers calls that run side by side: the first was refused, the second had its effect.
    at = next(n for n, one in enumerate(counter.messages) if getattr(one, "name", "") == "create_load_balancer")
    refused, done = counter.messages[at : at + 2]
    answered: list[BaseMessage] = [refused.model_copy(update={"status": "error", "content": "quota reached"}), done]

    reply = counter.think([*counter.messages[:at], *answered])
    assert [(call["name"], call["args"]) for call in reply.tool_calls] == [("abort", {"reason": "quota reached"})]


def test_a_refused_quote_is_told_in_text() -> None:
    turn = Counter(refuse={"quote_order": "the catalogue is closed"}).say(ORDER)

    assert turn.tools == [["quote_order"]]
    assert "the catalogue is closed" in turn.text


@pytest.mark.parametrize("word", ["yes", "try again", "ok do it", ORDER])
def test_after_a_rollback_an_order_is_quoted_anew_before_it_is_placed(word: str) -> None:
    counter = Counter(refuse={"authorize_payment": "card declined"})
    counter.say(ORDER)
    assert counter.say("yes").text.startswith("Rolled back")
    counter.refuse.clear()

    assert counter.say(word).tools == [["quote_order"]]
    assert counter.say("yes").tools == PLACING


@pytest.mark.parametrize("word", ["cancel the order I just placed", "please undo my last order", "take it back"])
def test_a_placed_order_is_taken_back_and_that_is_committed(word: str) -> None:
    counter = Counter(confirmed=True)
    counter.say(ORDER)
    turn = counter.say(word)

    assert turn.calls == [[("revoke_order", {})], [("commit", {})]]
    assert "taken back" in turn.text


@pytest.mark.parametrize("word", ["don't cancel the order I just placed", "how do I cancel an order I placed?"])
def test_an_order_is_not_taken_back_because_it_was_spoken_of(word: str) -> None:
    counter = Counter(confirmed=True)
    counter.say(ORDER)

    assert counter.say(word).calls == []


def test_without_the_tool_it_says_that_it_can_not_take_an_order_back() -> None:
    counter = Counter(confirmed=True, offered=("quote_order", "commit"))

    assert "can't take back" in counter.say("cancel the order I just placed").text


@pytest.mark.parametrize("word", ["hello", "who are you?", "help", "book me a flight to Oslo", "a large pizza, please"])
def test_it_says_that_it_is_a_stub_and_what_it_can_do(word: str) -> None:
    turn = Counter(confirmed=True).say(word)

    assert turn.calls == []
    assert "I am Countermand's stub model" in turn.text
    assert "eu-west" in turn.text


def test_the_careless_one_gets_the_first_call_of_a_turn_wrong_and_mends_it() -> None:
    turn = Counter("careless", confirmed=True).say(ORDER)

    assert turn.tools == [["quote_order"], ["quote_order"], *PLACING]
    assert turn.calls[0] != turn.calls[1]


def test_the_looping_one_never_ends() -> None:
    assert Counter("looping", confirmed=True).say(ORDER, thoughts=30).tools == [["quote_order"]] * 30


def test_the_forgetful_one_does_everything_but_commit() -> None:
    counter = Counter("forgetful", confirmed=True)
    turn = counter.say(ORDER)
    reminded = counter.think([*counter.messages, HumanMessage(REMINDER)])

    assert turn.tools == [["quote_order"], *PLACING[:-1]]
    assert reminded.tool_calls == []


async def test_what_is_streamed_is_what_is_generated() -> None:
    counter = Counter(confirmed=True)
    counter.say("hello")
    counter.say(ORDER)
    prompts = [counter.messages[:end] for end, one in enumerate(counter.messages) if isinstance(one, AIMessage)]

    for prompt in prompts:
        chunks = [chunk async for chunk in counter.model.astream(prompt) if isinstance(chunk, AIMessageChunk)]
        streamed = message_chunk_to_message(add_ai_message_chunks(*chunks))
        generated = await counter.model.ainvoke(prompt)
        assert isinstance(streamed, AIMessage)
        assert (streamed.text, streamed.tool_calls) == (generated.text, generated.tool_calls)
        assert generated.tool_calls or len(chunks) > 5


def test_the_same_conversation_has_the_same_answer_and_no_call_id_twice() -> None:
    first, second = Counter(confirmed=True), Counter(confirmed=True)
    for counter in (first, second):
        counter.say(ORDER)
        counter.say(ORDER)
    said, again = (
        [(one.text, one.tool_calls) for one in counter.messages if isinstance(one, AIMessage)]
        for counter in (first, second)
    )
    ids = [call["id"] for _, calls in said for call in calls]

    assert said == again
    assert len(ids) == len(set(ids))


def test_an_unknown_persona_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ModelUnavailable, match="'grumpy'; it has order, careless, looping, forgetful"):
        check_model_name("stub:grumpy")


@pytest.mark.parametrize("name", ["", "gpt", "Stub", "openai:", ":x", "openai: gpt"])
def test_a_name_of_no_model_is_refused_with_the_forms(name: str) -> None:
    with pytest.raises(ModelUnavailable, match=r"stub\[:persona\], script:PATH, cassette:PATH, or provider:model"):
        check_model_name(name)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("groq:any", "pip install langchain-groq"),
        ("openai:gpt-5", "OPENAI_API_KEY"),
        ("nosuchprovider:any", "nosuchprovider"),
    ],
)
def test_a_provider_that_is_not_there_is_one_line_that_says_what_is_missing(
    name: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ALLOWED, "1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelUnavailable) as caught:
        resolve_model(name)

    assert told in str(caught.value).replace("`", "")
    assert "\n" not in str(caught.value)
    assert "countermand[groq]" not in str(caught.value)


@pytest.mark.parametrize("text", ["yes " * 5_000, "1" * 10_000, "a@" * 5_000, "x." * 5_000, "eu-" * 5_000, "\0\x07é中"])
def test_a_message_of_any_kind_is_answered(text: str) -> None:
    prompt = [SystemMessage(ORDER_TEAM.entry.instructions), HumanMessage(text)]

    assert resolve_model("stub").invoke(prompt).text
