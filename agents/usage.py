"""What models are used for: requests, tokens, and what those cost by a price list."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Self

import yaml
from langchain_core.messages import AIMessage
from pydantic import Field, TypeAdapter, ValidationError

from countermand.saga.errors import CountermandError
from countermand.saga.types import Frozen

_MILLION = 1_000_000

Currency = Annotated[str, Field(pattern=r"^[a-z]{3}$")]


class Price(Frozen):
    """What a million tokens cost, in major units, as providers' price lists say it. Discounts are not considered."""

    input: Decimal = Field(ge=0)
    output: Decimal = Field(ge=0)
    currency: Currency = "usd"


class Cost(Frozen):
    """What model calls cost, in major units: a call is a fraction of a cent."""

    amount: Decimal
    currency: Currency

    def __str__(self) -> str:
        return f"{self.amount:.4f} {self.currency.upper()}"


class Usage(Frozen):
    """What one model was used for; tokens are 0 where its provider tells none, and ``cost`` None without a price."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Cost | None = None

    def __str__(self) -> str:
        tokens = f", {self.input_tokens:,} tokens in, {self.output_tokens:,} out" if self.input_tokens else ""
        cost = f", {self.cost}" if self.cost else ""
        return f"{self.requests} requests{tokens}{cost}"

    def plus(self, more: Self) -> Self:
        """Both together."""
        cost = more.cost
        if self.cost is not None and more.cost is not None:
            cost = Cost(amount=self.cost.amount + more.cost.amount, currency=more.cost.currency)
        return self.model_copy(
            update={
                "requests": self.requests + more.requests,
                "input_tokens": self.input_tokens + more.input_tokens,
                "output_tokens": self.output_tokens + more.output_tokens,
                "cost": cost,
            }
        )


Prices = Mapping[str, Price]
"""By the model's name, as ``--model`` names it."""


def _usd(input_: str, output: str) -> Price:
    return Price(input=Decimal(input_), output=Decimal(output))


PRICES: Prices = {
    "openai:gpt-5": _usd("1.25", "10"),
    "openai:gpt-5-mini": _usd("0.25", "2"),
    "openai:gpt-5-nano": _usd("0.05", "0.40"),
    "openai:gpt-4.1": _usd("2", "8"),
    "openai:gpt-4.1-mini": _usd("0.40", "1.60"),
    "anthropic:claude-opus-4-5": _usd("5", "25"),
    "anthropic:claude-sonnet-4-5": _usd("3", "15"),
    "anthropic:claude-haiku-4-5": _usd("1", "5"),
}
"""Of 2026: platform.openai.com/docs/pricing and platform.claude.com/docs/en/about-claude/pricing."""

_LIST = TypeAdapter(dict[str, Price])


class PricesInvalid(CountermandError):
    """A price list can't be read; the message names the model, the field and the reason."""


def load_prices(path: Path | None) -> Prices:
    """``PRICES``, with those of a YAML file over them: ``openai:gpt-5: {input: 1.25, output: 10}``, a line a model.

    Raises:
        PricesInvalid: In one line.
    """
    if path is None:
        return PRICES
    try:
        return {**PRICES, **_LIST.validate_python(yaml.safe_load(path.read_text("utf-8")))}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise PricesInvalid(f"model prices {path}: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ": ".join(map(str, first["loc"])) or "the whole"
        raise PricesInvalid(f"model prices {path}: {where}: {first['msg']}") from error


def usage_of(message: AIMessage, price: Price | None) -> Usage:
    """What one answer used, as its provider tells."""
    told = message.usage_metadata
    if told is None:
        return Usage(requests=1)
    tokens = told["input_tokens"], told["output_tokens"]
    cost = None
    if price is not None:
        amount = (tokens[0] * price.input + tokens[1] * price.output) / _MILLION
        cost = Cost(amount=amount, currency=price.currency)
    return Usage(requests=1, input_tokens=tokens[0], output_tokens=tokens[1], cost=cost)
