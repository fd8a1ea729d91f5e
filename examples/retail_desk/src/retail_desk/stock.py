"""Fills the database with a shop: ``python -m retail_desk.stock SHOP.json``.

The file is in the form of the tau2 benchmark's retail domain: products with their variants, users with their payment
methods, orders; amounts are dollars there, and cents in the database.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from sqlalchemy import insert

from retail_desk.database import SHOP, transaction
from retail_desk.desk import table_of
from retail_desk.models import Line, Order, Payment, PaymentMethod, User, Variant

# As JSON gives it; the models say what is right.
Document = Mapping[str, Any]


def fill(shop: Document) -> None:
    """Empty the database, and fill it with a shop."""
    with transaction() as connection:
        for table in reversed(SHOP.sorted_tables):
            connection.execute(table.delete())
        rows: dict[type[BaseModel], list[dict[str, object]]] = {}
        for thing in things(shop):
            rows.setdefault(type(thing), []).append(thing.model_dump(mode="json"))
        for kind, kept in rows.items():
            connection.execute(insert(table_of(kind)), kept)


def things(shop: Document) -> Iterator[Variant | User | PaymentMethod | Order]:
    """All that a shop's file holds, one by one."""
    for product in shop["products"].values():
        for variant in product["variants"].values():
            whose = {"product_id": product["product_id"], "name": product["name"]}
            yield Variant.model_validate({**variant, **whose, "price": cents(variant["price"])})
    for user in shop["users"].values():
        known = {name: user[name] for name in ("user_id", "email", "address")}
        yield User.model_validate({**user["name"], **known})
        for method in user["payment_methods"].values():
            yield _method(user["user_id"], method)
    for order in shop["orders"].values():
        yield _order(order)


def cents(dollars: float) -> int:
    """An amount in dollars, in cents."""
    return round(dollars * 100)


def _method(user_id: str, method: Document) -> PaymentMethod:
    held = cents(method["balance"]) if "balance" in method else None
    given = {name: value for name, value in method.items() if name not in {"id", "balance"}}
    return PaymentMethod.model_validate(
        {**given, "payment_method_id": method["id"], "user_id": user_id, "balance": held}
    )


def _order(order: Document) -> Order:
    difference = order.get("exchange_price_difference")
    changed = {
        "items": [Line.model_validate({**line, "price": cents(line["price"])}) for line in order["items"]],
        "payment_history": [
            Payment.model_validate({**paid, "amount": cents(paid["amount"])}) for paid in order["payment_history"]
        ],
        "exchange_price_difference": None if difference is None else cents(difference),
    }
    return Order.model_validate({**order, **changed})


if __name__ == "__main__":
    if len(sys.argv) != 2:  # noqa: PLR2004 - the program's name, and the file
        sys.exit("usage: python -m retail_desk.stock SHOP.json")
    fill(json.loads(Path(sys.argv[1]).read_text("utf-8")))
