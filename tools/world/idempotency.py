"""Idempotency keys as Stripe's API v1 documents them, and the tombstones that fence late calls.

Source of the rules: https://docs.stripe.com/api/idempotent_requests. Keys are scoped per provider. They are never
pruned (Stripe keeps them for 24 hours at least): an undo may come days after its forward call.

Beyond Stripe: an undo that names the forward call by its key buries that key, so that a forward call which comes
later, or is still under way, is refused for good. Such an undo is idempotent by its very name; only its success is
stored, so that a repeat under the same key may still succeed.
"""

import hashlib
import json

from pydantic import BaseModel, Field, JsonValue
from sqlalchemy.orm import Mapped, mapped_column

from countermand.tools.world.database import Base
from countermand.tools.world.errors import Refusal
from countermand.tools.world.ledger import effect_of
from countermand.tools.world.models.common import Frozen, Probe, Probed, Undo
from countermand.tools.world.operations import Call, Operation

RATE_LIMITED = 429
SERVER_ERROR = 500


class AnswerRow(Base, kw_only=True):
    """The stored answer to the call with a key."""

    __tablename__ = "answers"

    provider: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    fingerprint: Mapped[str]
    status: Mapped[int]
    content: Mapped[str]


class TombstoneRow(Base, kw_only=True):
    """A key whose forward call must never have an effect (any more)."""

    __tablename__ = "tombstones"

    provider: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    buried_at: Mapped[float]


class Reply(Frozen):
    """An answer: its status, its JSON text, and headers beside it."""

    status: int
    content: str
    headers: dict[str, str] = Field(default={})

    @property
    def success(self) -> bool:
        """Whether the status is 2xx."""
        return self.status < 300  # noqa: PLR2004 - the class of HTTP statuses


def reply(model: BaseModel) -> Reply:
    """The answer of a success."""
    return Reply(status=200, content=model.model_dump_json())


def refusal_reply(refusal: Refusal) -> Reply:
    """The answer of a refusal."""
    return Reply(status=refusal.status, content=refusal.body.model_dump_json())


def fingerprint(operation: Operation, body: BaseModel) -> str:
    """What must be equal for two calls with one key to be the same call: the endpoint and the parameters."""
    return hashlib.sha256(f"{operation.name} {body.model_dump_json()}".encode()).hexdigest()


def recall(call: Call, print_: str) -> Reply | None:
    """The stored answer to an earlier call with this key; None when the key is new.

    Raises:
        Refusal: The key was used otherwise, or was buried by an undo.
    """
    answer = call.session.get(AnswerRow, (call.provider, call.key))
    if answer is not None and answer.fingerprint != print_:
        raise key_reused(call.key)
    if call.session.get(TombstoneRow, (call.provider, call.key)) is not None:
        raise Refusal(
            409,
            "key_tombstoned",
            f"The call with the key {call.key!r} was undone: it can never have an effect. Do not repeat it.",
            type="idempotency_error",
        )
    if answer is None:
        return None
    return Reply(status=answer.status, content=answer.content, headers={"Idempotent-Replayed": "true"})


def store(call: Call, print_: str, body: BaseModel, *, true: Reply, given: Reply) -> None:
    """Keep the answer that was given under the call's key.

    A 429 is never kept, and no failure of an undo that is named by key: the true answer stands in, or nothing.
    """
    kept = given
    if is_named_undo(body) or given.status == RATE_LIMITED:
        kept = true
    if is_named_undo(body) and not kept.success:
        return
    call.session.add(
        AnswerRow(provider=call.provider, key=call.key, fingerprint=print_, status=kept.status, content=kept.content)
    )


def is_named_undo(body: BaseModel) -> bool:
    """Whether a request undoes a call that it names by its key."""
    return isinstance(body, Undo) and body.original_key is not None


def check_undo(call: Call, operation: Operation, body: BaseModel) -> None:
    """Refuse an undo that names the key of an effect it does not undo: that effect would be buried alive."""
    if isinstance(body, Undo) and body.original_key is not None:
        made = effect_of(call.session, call.provider, body.original_key)
        if made is not None and made.operation not in operation.undoes:
            raise Refusal(
                400,
                "wrong_undo",
                f"original_key: {made.operation} made this effect; {operation.name} undoes only "
                f"{', '.join(operation.undoes)}.",
            )


def bury(call: Call, body: BaseModel) -> None:
    """Leave the tombstone of the key that an undo names."""
    if isinstance(body, Undo) and body.original_key is not None:
        call.session.merge(TombstoneRow(provider=call.provider, key=body.original_key, buried_at=call.now))


def probe(call: Call, body: Probe) -> Probed:
    """Whether the call with this key landed, as far as the provider can tell."""
    if (call.provider, body.key) in call.in_flight:
        return Probed(status="unknown")
    if call.session.get(TombstoneRow, (call.provider, body.key)) is not None:
        return Probed(status="not_landed")
    answer = call.session.get(AnswerRow, (call.provider, body.key))
    if answer is None:
        return Probed(status="not_landed")
    if Reply(status=answer.status, content="").success:
        result: JsonValue = json.loads(answer.content)
        return Probed(status="landed", result=result)
    if answer.status >= SERVER_ERROR or effect_of(call.session, call.provider, body.key) is not None:
        return Probed(status="unknown")
    return Probed(status="not_landed")


def key_reused(key: str) -> Refusal:
    """The refusal of a key that comes with other parameters, or at another endpoint."""
    return Refusal(
        400,
        "idempotency_key_reused",
        f"The key {key!r} was used with other parameters or at another endpoint; use a new key for a new call.",
        type="idempotency_error",
    )


def key_in_use(key: str) -> Refusal:
    """The refusal of a concurrent duplicate."""
    return Refusal(
        409,
        "idempotency_key_in_use",
        f"A call with the key {key!r} is still under way; repeat it in a moment.",
        type="idempotency_error",
    )
