"""The types that all share."""

import pytest

from countermand.saga.types import Money


@pytest.mark.parametrize(
    ("amount", "currency", "written"),
    [
        (123_456, "usd", "1,234.56 USD"),
        (5, "eur", "0.05 EUR"),
        (1_500, "jpy", "1,500 JPY"),
        (1_500, "kwd", "1.500 KWD"),
    ],
)
def test_money_is_written_with_the_digits_of_its_currency(amount: int, currency: str, written: str) -> None:
    assert str(Money(amount=amount, currency=currency)) == written
