"""The tools that every agent holds: they act on the saga itself, not on the world."""

from typing import Literal

from pydantic import BaseModel, Field

from countermand.saga.types import Frozen


class Commit(Frozen):
    """Make everything done in this transaction final. Call it once, when the order is complete."""


class Abort(Frozen):
    """Undo everything done in this transaction, in reverse order."""

    reason: str = Field(max_length=500, description="Why, in words for the customer.")


class UndoTo(Frozen):
    """Undo the steps after the given one and go on from there in the same transaction."""

    step_no: int = Field(ge=0, description="The last step to keep; 0 keeps none.")


BuiltinName = Literal["commit", "abort", "undo_to"]
BUILTINS: dict[str, type[BaseModel]] = {"commit": Commit, "abort": Abort, "undo_to": UndoTo}
