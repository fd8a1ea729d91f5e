"""Plans to run, and what each must leave in the database: a small set of its own, and the gold one if it is there.

Both are in the same form: a shop, plans (what to write, in order), and what each plan changes.
"""

import copy
import functools
import json
import operator
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from countermand.agents.scripted import Expect, ScriptCall, ScriptStep

SMALL = Path(__file__).parent / "small"
SHARED = Path(os.environ.get("COUNTERMAND_CASES") or Path(__file__).parents[4] / "shared" / "cases") / "tau2-retail"

# As JSON gives it.
Json = Any


@dataclass(frozen=True)
class Cases:
    """A shop, its plans, and what they change."""

    shop_file: Path
    plans_file: Path
    expected_file: Path

    @cached_property
    def shop(self) -> Json:
        """The shop's file, as it is before any plan."""
        return json.loads(self.shop_file.read_text("utf-8"))

    @cached_property
    def plans(self) -> "list[Plan]":
        """The plans, in their order."""
        changes = {line["task_id"]: line["net_changes"] for line in _lines(self.expected_file)}
        return [
            Plan(line["task_id"], line["actions"], changes[line["task_id"]], self) for line in _lines(self.plans_file)
        ]

    def after(self, *plans: "Plan") -> Json:
        """The shop's file as it is after some plans."""
        shop = copy.deepcopy(self.shop)
        for plan in plans:
            for change in plan.changes:
                _apply(shop, change)
            for action in plan.actions:
                if action["name"] == "modify_pending_order_items":
                    _right_by_each_line(shop, action["arguments"])
        return shop


@dataclass(frozen=True)
class Plan:
    """What one customer wants: writes, in order; ``changes`` are what they come to, taken together."""

    id: str
    actions: list[Json]
    changes: list[Json]
    cases: Cases

    @property
    def user_id(self) -> str:
        """Whose plan it is."""
        first = self.actions[0]["arguments"]
        return str(first.get("user_id") or self.cases.shop["orders"][first["order_id"]]["user_id"])

    @property
    def script(self) -> tuple[ScriptStep, ...]:
        """What the model does: it finds the customer, writes one thing after another, and commits."""
        email = self.cases.shop["users"][self.user_id]["email"]
        found = ScriptStep(calls=(ScriptCall(tool="find_user_id_by_email", args={"email": email}),))
        writes = [
            ScriptStep(calls=(ScriptCall(tool=action["name"], args=action["arguments"]),)) for action in self.actions
        ]
        last = Expect(last_tool=self.actions[-1]["name"])
        return (found, *writes, ScriptStep(expect=last, calls=(ScriptCall(tool="commit"),)), ScriptStep(say="Done."))


OWN = Cases(SMALL / "shop.json", SMALL / "plans.jsonl", SMALL / "expected.jsonl")
GOLD = Cases(SHARED / "db.min.json", SHARED / "retail_gold_writes.jsonl", SHARED / "retail_gold_expected.jsonl")
"""Of the tau2 benchmark: nobody of this project wrote them."""

ALL = [OWN, GOLD] if SHARED.is_dir() else [OWN]


def _lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]


def _apply(shop: Json, change: Json) -> None:
    *way, last = (int(part) if part.isdecimal() else part for part in change["path"].removeprefix("/").split("/"))
    place: Json = functools.reduce(operator.getitem, way, shop)
    if change.get("op") == "removed":
        del place[last]
    else:
        place[last] = change["after"]


def _right_by_each_line(shop: Json, changed: Json) -> None:
    """What tau2 itself does wrong: with several items, every line got the last one's price and options."""
    for line in shop["orders"][changed["order_id"]]["items"]:
        if line["item_id"] in changed["new_item_ids"]:
            variant = shop["products"][line["product_id"]]["variants"][line["item_id"]]
            line["price"], line["options"] = variant["price"], variant["options"]
