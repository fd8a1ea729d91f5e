"""Secrets are known where a customer speaks, where a log is written, and in a tool's declaration."""

import pytest
from pydantic import SecretBytes, SecretStr

from countermand.saga.errors import ToolDeclarationError
from countermand.saga.sensitive import ADDRESS, CARD_NUMBER, SECRET, masked, masked_for_log, secret_field
from countermand.saga.types import Frozen, ToolCall
from countermand.tools.tool import tool

CARDS = [
    "4242424242424242",
    "4242 4242 4242 4242",
    "4242-4242-4242-4242",
    "5555555555554444",
    "2223003122003222",
    "3782 822463 10005",
    "30569309025904",
    "6011111111111117",
]
"""Stripe's and PayPal's published test cards of six networks."""

KEYS = [
    "sk-proj-abcdefghij0123456789",
    "sk_live_abcdefghij0123456789",
    "whsec_abcdefghij0123456789",
    "ghp_abcdefghij0123456789abcdefghij012345",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA\n-----END PRIVATE KEY-----",
]

HARMLESS = [
    "4242424242424241",
    "order 20261201051000 of 2026-12-01 05:10:00",
    "DE89 3704 0044 0532 0130 00",
    "BE68 5390 0754 7034",
    "+49 30 1234567",
    "quo_1a2b3c4d and tok_visa and chat-1a2b3c4d/t1:2",
    "two load balancers for ada@example.com at ada.example.dev",
    "0" * 16,
    "4242424242424242" * 2,
]
"""A wrong check digit, a time, bank accounts, a telephone number, ids, an order, and longer numbers."""


@pytest.mark.parametrize("card", CARDS)
def test_a_card_number_is_masked(card: str) -> None:
    assert masked(f"my card is {card}, please") == f"my card is {CARD_NUMBER}, please"


@pytest.mark.parametrize("key", KEYS)
def test_an_api_key_is_masked(key: str) -> None:
    assert masked(f"use {key} now") == f"use {SECRET} now"


def test_a_bearer_token_and_a_password_in_a_url_are_masked() -> None:
    assert masked("Authorization: Bearer abc.def-123") == f"Authorization: Bearer {SECRET}"
    assert masked("redis://user:hunter22@host:6379/0") == f"redis://{SECRET}@host:6379/0"


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert masked(text) == text


def test_what_is_masked_stays_as_it_is() -> None:
    once = masked(" ".join([*CARDS, *KEYS]))
    assert masked(once) == once


def test_a_log_holds_no_card_token_no_address_and_no_secret_of_the_environment() -> None:
    environment = {"MY_API_KEY": "correct horse battery", "HOME": "/home/ada", "A_TOKEN": "short"}
    told = masked_for_log("tok_visa of ada@example.com: correct horse battery, /home/ada, short", environment)
    assert told == f"{SECRET} of {ADDRESS}: {SECRET}, /home/ada, short"


class Inner(Frozen):
    """A secret at depth."""

    hidden: SecretBytes | None = None


class Outer(Frozen):
    """A secret in a list of models."""

    inner: list[Inner]


class Typed(Frozen):
    """A secret by its type."""

    code: SecretStr


class Named(Frozen):
    """A secret by its name."""

    cvc: str


class Listed(Frozen):
    """Several secrets."""

    codes: list[SecretStr]


class Harmless(Frozen):
    """References only."""

    card_token: str
    secret_id: str
    page_token: str


@pytest.mark.parametrize(
    ("model", "field"), [(Typed, "code"), (Named, "cvc"), (Outer, "hidden"), (Listed, "codes"), (Harmless, None)]
)
def test_a_models_secret_field_is_found_by_type_or_name_at_any_depth(model: type[Frozen], field: str | None) -> None:
    assert secret_field(model) == field


def test_a_tool_that_takes_a_secret_is_refused_at_import_with_what_to_do() -> None:
    with pytest.raises(ToolDeclarationError, match=r"argument 'cvc' is a secret.*pass a reference"):

        @tool(effect="read")
        async def check_code(_call: ToolCall, args: Named) -> Harmless:  # pyright: ignore[reportUnusedFunction]
            return Harmless(card_token=args.cvc, secret_id="", page_token="")


def test_a_tool_that_answers_a_secret_is_refused_at_import() -> None:
    with pytest.raises(ToolDeclarationError, match="result 'code' is a secret"):

        @tool(effect="read")
        async def tell_code(_call: ToolCall, _args: Harmless) -> Typed:  # pyright: ignore[reportUnusedFunction]
            return Typed(code=SecretStr("42"))
