"""What other desks are asked, as others wrote it down: ours answers it, and never with a call."""

import pytest

from tests.agents.counter import Counter
from tests.cases import read_lines

UTTERANCES = [
    str(case["text"])
    for name in ("retail_requests_mit.jsonl", "sgd_transactions_ccbysa.jsonl")
    for case in read_lines(f"utterances/{name}")
]
ORDER = "a medium environment in eu-west for ada@example.com at ada.example.dev"


@pytest.mark.parametrize("confirmed", [True, False])
def test_a_request_outside_the_desks_domain_is_answered_without_a_call(confirmed: bool) -> None:
    answers = {text: Counter(confirmed=confirmed).say(text) for text in UTTERANCES}

    assert len(answers) > 50
    assert {text: turn.calls for text, turn in answers.items() if turn.calls} == {}
    assert [text for text, turn in answers.items() if "stub model" not in turn.text] == []


def test_nor_is_it_taken_for_a_word_about_the_quote_that_stands() -> None:
    called: dict[str, object] = {}
    for text in UTTERANCES:
        counter = Counter()
        counter.say(ORDER)
        placed = [name for names in counter.say(text).tools for name in names if name != "quote_order"]
        if placed:
            called[text] = placed

    assert called == {}


def test_nor_is_it_taken_for_a_word_about_the_order_that_was_placed() -> None:
    called: dict[str, object] = {}
    for text in UTTERANCES:
        counter = Counter(confirmed=True)
        counter.say(ORDER)
        if calls := counter.say(text).calls:
            called[text] = calls

    assert called == {}
