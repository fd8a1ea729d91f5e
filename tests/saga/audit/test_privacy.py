"""Nothing personal or secret is in the log, what is in it can be proven by who holds the data, and be forgotten."""

from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue, TypeAdapter, ValidationError

from countermand.saga.audit.entries import Entry, RevokeEntry, StepEntry, digest, proves
from countermand.saga.audit.judge import read_entries
from countermand.saga.audit.log import SALTS_FILE
from countermand.saga.audit.reader import read_log
from countermand.saga.audit.salts import Salts

from .conftest import NOON, Trail, order

CARD = "tok_4242424242424242"
SAGA = "private"
ARGS: JsonValue = {"card": CARD, "email": "ada@example.org", "amount": 4200}


def private_order() -> list[Entry]:
    entries = order(SAGA)
    for place in (1, 2):
        entries[place] = entries[place].model_copy(update={"args": digest(ARGS)})
    return entries


def kept_args(trail: Trail) -> str:
    with read_log(trail.path) as reader:
        (leaf,) = reader.of_saga(SAGA)
    (step,) = (entry for entry in read_entries(body for _, body in leaf.records) if isinstance(entry, StepEntry))
    return step.args


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


def test_no_file_of_the_log_holds_a_secret_or_a_digest_that_could_be_guessed(trail: Trail) -> None:
    trail.append(SAGA, private_order())
    stored = bytes_of(trail.folder)
    assert SAGA.encode() in stored, "this is where the saga is"
    for secret in (CARD, "ada@example.org", digest(ARGS).removeprefix("sha256:")):
        assert secret.encode() not in stored


def test_who_holds_the_data_can_prove_it_until_the_salt_is_deleted(trail: Trail) -> None:
    trail.append(SAGA, private_order())
    kept = kept_args(trail)
    with closing(Salts(trail.folder / SALTS_FILE)) as salts:
        salt = salts.find(SAGA)
        assert salt is not None
        assert proves(ARGS, kept, salt)
        assert not proves({"card": CARD, "email": "eve@example.org", "amount": 4200}, kept, salt)
        assert salts.forget(SAGA)
        assert salts.find(SAGA) is None
        assert not salts.forget(SAGA), "there is nothing left to forget"
        other = salts.find("s1")
    assert other is not None
    assert salt not in bytes_of(trail.folder), "the salt is on no disk any more"
    assert other in bytes_of(trail.folder), "another saga's is"
    assert not proves(ARGS, kept, other), "no other salt proves it"
    assert trail.verify(with_heads=True).ok, "the log still verifies"


def test_a_forgotten_saga_can_be_amended_and_stays_forgotten(trail: Trail) -> None:
    trail.append(SAGA, private_order())
    kept = kept_args(trail)
    with closing(Salts(trail.folder / SALTS_FILE)) as salts:
        salts.forget(SAGA)
        receipt = trail.append(SAGA, [RevokeEntry(seq=1, time=NOON, actor="operator:grace")])
        fresh = salts.find(SAGA)
    assert receipt.n == 2
    assert fresh is not None
    assert not proves(ARGS, kept, fresh)


def test_equal_arguments_of_two_sagas_look_different() -> None:
    salts = [b"one saga's salt", b"another saga's salt"]
    entry = private_order()[2]
    first, second = (entry.model_dump(context=salt)["args"] for salt in salts)
    assert first != second
    assert entry.model_dump()["args"] == digest(ARGS), "history keeps the digest as it is"


@pytest.mark.parametrize("actor", ["operator:ada@example.org", "operator:Ada Lovelace", "Ada", "agent:", "operator:"])
def test_an_actor_is_an_account_never_an_address_or_a_full_name(actor: str) -> None:
    with pytest.raises(ValidationError, match="actor"):
        RevokeEntry(seq=1, time=NOON, actor=actor)


def test_a_plain_value_in_the_place_of_a_digest_is_refused() -> None:
    with pytest.raises(ValidationError, match="reason"):
        RevokeEntry(seq=1, time=NOON, actor="customer", reason="I moved to Elm Street 5")


@settings(deadline=None)
@given(st.dictionaries(st.text("abcé€😀"), st.integers(-(2**53) + 1, 2**53 - 1) | st.booleans() | st.text("xyz")))
def test_the_order_of_names_does_not_change_a_digest(value: dict[str, JsonValue]) -> None:
    backwards = dict(reversed(value.items()))
    assert digest(value) == digest(backwards)


def test_entries_come_back_from_history_as_they_went() -> None:
    adapter: TypeAdapter[list[Entry]] = TypeAdapter(list[Entry])
    entries = private_order()
    assert adapter.validate_json(adapter.dump_json(entries)) == entries
