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


class KeyRow(Base, kw_only=True):
    """What is known of a key: the stored answer to its call, or that its call must never have an effect (any more)."""

    __tablename__ = "keys"

    provider: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    fingerprint: Mapped[str | None] = mapped_column(default=None)
    status: Mapped[int | None] = mapped_column(default=None)
    content: Mapped[str | None] = mapped_column(default=None)
    buried_at: Mapped[float | None] = mapped_column(default=None)

    @property
    def answer(self) -> "Reply | None":
        """The stored answer."""
        if self.status is None or self.content is None:
            return None
        return Reply(status=self.status, content=self.content, headers={"Idempotent-Replayed": "true"})


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
    known = _known(call, call.key)
    if known is None:
        return None
    if known.fingerprint not in (None, print_):
        raise key_reused(call.key)
    if known.buried_at is not None:
        raise Refusal(
            409,
            "key_tombstoned",
            f"The call with the key {call.key!r} was undone: it can never have an effect. Do not repeat it.",
            type="idempotency_error",
        )
    return known.answer


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
        KeyRow(provider=call.provider, key=call.key, fingerprint=print_, status=kept.status, content=kept.content)
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
    if not isinstance(body, Undo) or body.original_key is None:
        return
    known = _known(call, body.original_key)
    if known is None:
        call.session.add(KeyRow(provider=call.provider, key=body.original_key, buried_at=call.now))
    else:
        known.buried_at = known.buried_at or call.now


def probe(call: Call, body: Probe) -> Probed:
    """Whether the call with this key landed, as far as the provider can tell."""
    if (call.provider, body.key) in call.in_flight:
        return Probed(status="unknown")
    known = _known(call, body.key)
    if known is None or known.buried_at is not None or known.answer is None:
        return Probed(status="not_landed")
    if known.answer.success:
        result: JsonValue = json.loads(known.answer.content)
        return Probed(status="landed", result=result)
    if known.answer.status >= SERVER_ERROR or effect_of(call.session, call.provider, body.key) is not None:
        return Probed(status="unknown")
    return Probed(status="not_landed")


def _known(call: Call, key: str) -> KeyRow | None:
    return call.session.get(KeyRow, (call.provider, key))


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
