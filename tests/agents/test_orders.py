"""What the stub makes of plain words: the exact order, or the question, or what can't be ordered."""

import pytest

from countermand.tools.inventory import QuoteOrder
from tests.agents.counter import Counter

WHO = "for ada@example.com at ada.example.dev"


def order(plan: str, region: str, balancers: int = 1, quantity: int = 1, **who: str) -> QuoteOrder:
    details = {"email": "ada@example.com", "hostname": "ada.example.dev", "plan": plan, "region": region} | who
    return QuoteOrder.model_validate(details | {"load_balancers": balancers, "quantity": quantity})


ONE_SENTENCE: list[tuple[str, QuoteOrder]] = [
    (f"a medium environment in eu-west {WHO}, two load balancers", order("medium", "eu-west", 2)),
    (f"Medium, eu-west, {WHO}", order("medium", "eu-west")),
    (f"hi! I'd like a small environment in us-east {WHO}, please", order("small", "us-east")),
    (f"A Medum enviroment in EU West {WHO}", order("medium", "eu-west")),
    (f"a meduim one in eu wset {WHO}", order("medium", "eu-west")),
    (f"a Lareg environement in eu_north {WHO}", order("large", "eu-north")),
    (f"smal cluster, ap south, {WHO}, 3 LBs", order("small", "ap-south", 3)),
    (f"LARGE ENVIRONMENT, EU-NORTH, {WHO.upper()}", order("large", "eu-north", email="ADA@EXAMPLE.COM")),
    (f"hosting in western europe, medium-sized, {WHO}", order("medium", "eu-west")),
    (f"an environment of size large in asia pacific south {WHO}", order("large", "ap-south")),
    (f"small plan, region us east, {WHO}", order("small", "us-east")),
    (f"not small, medium, in eu-north {WHO}", order("medium", "eu-north")),
    (f"large instead of medium, in eu-west {WHO}", order("large", "eu-west")),
    (f"small, no wait, large, in eu-west {WHO}", order("large", "eu-west")),
    (f"a small environment in eu-west, sorry, I mean eu-north, {WHO}", order("small", "eu-north")),
    (f"a medium environment not in eu-west but in us-east {WHO}", order("medium", "us-east")),
    (f"two load balancers, actually three load balancers, small, eu-west, {WHO}", order("small", "eu-west", 3)),
    (f"anything but small: large in eu-west {WHO}", order("large", "eu-west")),
    (f"three medium environments in us-east {WHO}", order("medium", "us-east", 1, 3)),
    (f"I need 3 mediums with 2 load balancers in us-east {WHO}", order("medium", "us-east", 2, 3)),
    (f"large in ap-south {WHO}, quantity 4, load balancers: 2", order("large", "ap-south", 2, 4)),
    (f"medium x3, 2x load balancer, eu-west, {WHO}", order("medium", "eu-west", 2, 3)),
    (f"a dozen small machines in eu-west {WHO}", order("small", "eu-west", 1, 12)),
    (f"twenty-five small servers in eu-west {WHO}", order("small", "eu-west", 1, 25)),
    (f"small in eu-west {WHO} with a load balancer", order("small", "eu-west")),
    (f"small in eu-west {WHO} with a couple of load balancers", order("small", "eu-west", 2)),
    (f"a medium cluster in eu-west {WHO} and pay with tok_visa", order("medium", "eu-west")),
    (f"3 x medium in eu-west {WHO}", order("medium", "eu-west", 1, 3)),
    (f"medium in eu-west {WHO}; call me before 5 pm", order("medium", "eu-west")),
    (f"For our small business: a large environment in eu-west {WHO}", order("large", "eu-west")),
    (
        "medium in eu-west, e-mail bob@shop.example, host name www.shop.example.",
        order("medium", "eu-west", email="bob@shop.example", hostname="www.shop.example"),
    ),
    (
        "medium in eu-west for <bob@shop.example>, https://www.Shop.example/",
        order("medium", "eu-west", email="bob@shop.example", hostname="www.shop.example"),
    ),
]

IN_TURNS: list[tuple[tuple[str, ...], QuoteOrder]] = [
    (
        ("I want an environment", "medium", "in eu-west", "ada@example.com", "ada.example.dev"),
        order("medium", "eu-west"),
    ),
    ((f"medium in eu-west {WHO}", "actually make it large"), order("large", "eu-west")),
    ((f"medium in eu-west {WHO}", "no, eu-north"), order("medium", "eu-north")),
    ((f"medium in eu-west {WHO}", "change it from medium to small"), order("small", "eu-west")),
    ((f"medium in eu-west {WHO}", "with three load balancers please"), order("medium", "eu-west", 3)),
    ((f"medium in eu-west {WHO}, 2 load balancers", "yes but large"), order("large", "eu-west", 2)),
    ((f"medium in eu-west {WHO}", "make that two machines"), order("medium", "eu-west", 1, 2)),
    ((f"several load balancers, medium, eu-west, {WHO}", "three"), order("medium", "eu-west", 3)),
    ((f"load balancers, medium, eu-west, {WHO}", "just two please"), order("medium", "eu-west", 2)),
    ((f"2 or 3 load balancers, medium, eu-west, {WHO}", "3 load balancers"), order("medium", "eu-west", 3)),
    ((f"small or large in eu-west {WHO}", "the large one"), order("large", "eu-west")),
    ((f"huge plan in eu-west {WHO}", "then large"), order("large", "eu-west")),
    ((f"medium in mars-1 {WHO}", "us-east then"), order("medium", "us-east")),
    ((f"medium in eu-west {WHO}, no load balancer", "ok, one load balancer"), order("medium", "eu-west", 1)),
    ((f"medium in eu-west {WHO}, two load balancers, no, three", "3 load balancers"), order("medium", "eu-west", 3)),
    ((f"medium in eu-west {WHO}", "what can you do?", "small instead"), order("small", "eu-west")),
    ((f"medium in eu-west {WHO}", "never mind", f"small in us-east {WHO}"), order("small", "us-east")),
]


@pytest.mark.parametrize(("text", "expected"), ONE_SENTENCE)
def test_an_order_in_one_sentence_is_quoted_exactly(text: str, expected: QuoteOrder) -> None:
    assert Counter().say(text).quoted == [expected]


@pytest.mark.parametrize(("texts", "expected"), IN_TURNS)
def test_what_is_said_later_completes_and_corrects(texts: tuple[str, ...], expected: QuoteOrder) -> None:
    counter = Counter()
    turns = [counter.say(text) for text in texts]

    assert turns[-1].quoted == [expected]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("I want an environment", ["a plan", "a region", "your e-mail address", "the host name"]),
        ("a medium environment in eu-west", ["your e-mail address", "the host name"]),
        (f"a medium environment {WHO}", ["a region"]),
        (f"an environment in eu-west {WHO}", ["a plan"]),
        ("a medium environment in eu-west at ada.example.dev", ["your e-mail address"]),
        ("a medium environment in eu-west for ada@example.com", ["the host name"]),
        (f"a medium environment in europe {WHO}", ["a region"]),
        (f"not a small environment, eu-west, {WHO}", ["a plan"]),
        (f"medium in eu-west {WHO} with load balancers", ["the number of load balancers"]),
        (f"medium in eu-west {WHO} with 2 or 3 load balancers", ["the number of load balancers"]),
        (f"medium in eu-west {WHO} with 2-3 load balancers", ["the number of load balancers"]),
        (f"medium in eu-west {WHO}, two load balancers, no, three", ["the number of load balancers"]),
        (f"medium environments in eu-west {WHO}", ["the number of machines"]),
        (f"two environments with two load balancers each, small, eu-west, {WHO}", ["the number of load balancers"]),
        (f"I want 3, medium, eu-west, {WHO}", ["the number of machines"]),
        (f"a weast-eu environment, small, {WHO}", ["a region"]),
    ],
)
def test_what_is_missing_or_in_doubt_is_asked_for_and_nothing_else(text: str, asked: list[str]) -> None:
    turn = Counter().say(text)
    every = [
        "a plan",
        "a region",
        "your e-mail address",
        "the host name",
        "the number of machines",
        "the number of load balancers",
    ]

    assert turn.calls == []
    assert [one for one in every if one in turn.text] == asked


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"0 machines, medium, eu-west, {WHO}", ["quantity 0", "greater than or equal to 1"]),
        (f"quantity -1, medium, eu-west, {WHO}", ["quantity -1", "greater than or equal to 1"]),
        (f"10^9 medium machines in eu-west {WHO}", ["quantity 1000000000", "less than or equal to 100"]),
        (f"a billion medium machines in eu-west {WHO}", ["quantity 1000000000", "less than or equal to 100"]),
        (f"2,000 medium machines in eu-west {WHO}", ["quantity 2000", "less than or equal to 100"]),
        (f"1.5 medium machines in eu-west {WHO}", ["quantity '1.5'", "valid integer"]),
        (f"medium in eu-west {WHO}, no load balancer", ["load balancers 0", "greater than or equal to 1"]),
        (f"medium in eu-west {WHO}, I don't want a load balancer", ["load balancers 0", "greater than or equal to 1"]),
        (f"medium in eu-west {WHO} without load balancers", ["load balancers 0", "greater than or equal to 1"]),
        (f"medium in eu-west {WHO}, two hundred load balancers", ["load balancers 200", "less than or equal to 10"]),
        (f"a huge environment in eu-west {WHO}", ["plan 'huge'", "'small', 'medium' or 'large'"]),
        (f"an extra large environment in eu-west {WHO}", ["plan 'extra large'", "'small', 'medium' or 'large'"]),
        (f"a medium environment in region mars-1 {WHO}", ["region 'mars-1'", "'eu-west'"]),
        (f"a medium environment in us-west {WHO}", ["region 'us-west'", "'us-east'"]),
        (f"a medium environment in eu-east {WHO}", ["region 'eu-east'", "'eu-west'"]),
        (f"a medium environment in eu-west-1 {WHO}", ["region 'eu-west-1'", "'eu-west'"]),
        ("medium, eu-west, my e-mail is not-an-email, at ada.example.dev", ["email 'not-an-email'", "@"]),
        ("medium, eu-west, ada@nodots, at ada.example.dev", ["email 'ada@nodots'", "period"]),
        ("medium in eu-west for ada@example.com at nodots", ["hostname 'nodots'", "app.example.com"]),
        ("medium in eu-west for ada@example.com, host -bad-.example.com", ["hostname '-bad-", "app.example.com"]),
        ("medium in eu-west for ada@example.com at my_host.example.com", ["hostname 'my_host", "app.example.com"]),
    ],
)
def test_what_can_not_be_ordered_is_told_with_its_field_and_what_is_allowed(text: str, told: list[str]) -> None:
    turn = Counter(confirmed=True).say(text)

    assert turn.calls == []
    assert [part for part in told if part not in turn.text] == []


def test_a_count_that_was_refused_is_asked_for_again_and_not_assumed() -> None:
    counter = Counter()
    counter.say(f"medium in eu-west {WHO}, 2000 machines")

    assert "the number of machines" in counter.say("then the rest of the order, please: in us-east").text
    assert counter.say("20").quoted == [order("medium", "us-east", 1, 20)]


@pytest.mark.parametrize(
    "text",
    [
        "a small one in eu-west for a@x.dev at a.x.dev and a large one in us-east for b@x.dev at b.x.dev",
        "small in eu-west for a@x.dev at a.x.dev; also small in eu-west for b@x.dev at b.x.dev",
        "medium in eu-west and large in us-east, both for ada@example.com at ada.example.dev",
    ],
)
def test_two_orders_in_one_message_are_never_made_one(text: str) -> None:
    counter = Counter(confirmed=True)
    turn = counter.say(text)
    asked = counter.say("a medium environment")

    assert (turn.calls, asked.calls) == ([], [])
    assert "one order at a time" in turn.text
    assert "your e-mail address" in asked.text


def test_more_of_something_is_asked_for_as_a_number() -> None:
    counter = Counter()
    counter.say(f"medium in eu-west {WHO}, two load balancers")

    assert "the number of load balancers" in counter.say("add one more load balancer").text
    assert counter.say("three").quoted == [order("medium", "eu-west", 3)]
