import hashlib

import pytest
from pydantic import JsonValue, ValidationError

from countermand.cache.types import Context, ContextRef

from .contexts import context


def test_the_digest_is_the_sha256_of_the_canonical_json() -> None:
    canonical = (
        b'{"messages":[{"content":"hello","type":"human"}],"schema_version":1,'
        b'"session":"s1","tenant":"default","version":1}'
    )
    assert context().canonical == canonical
    assert context().digest == hashlib.sha256(canonical).hexdigest()


def test_the_order_of_keys_does_not_change_the_digest() -> None:
    turned = Context(tenant="default", session="s1", version=1, messages=({"content": "hello", "type": "human"},))
    assert turned.ref == context().ref


@pytest.mark.parametrize(
    "other",
    [context(2), context(text="bye"), context(session="s2"), context(tenant="other")],
    ids=["version", "messages", "session", "tenant"],
)
def test_a_change_anywhere_changes_the_digest(other: Context) -> None:
    assert other.digest != context().digest


@pytest.mark.parametrize("value", [2**53, "\ud800"], ids=["an integer that JSON cannot hold", "a lone surrogate"])
def test_what_has_no_canonical_form_is_told_with_its_field(value: JsonValue) -> None:
    bad = Context(tenant="default", session="s1", version=1, messages=({"content": value},))
    with pytest.raises(ValueError, match=r"^session s1: no canonical JSON: "):
        _ = bad.digest


@pytest.mark.parametrize("session", ["", "a/b", "a{b}", "x" * 65, "a b", "a\n"])
def test_a_session_id_that_could_leave_its_key_is_refused(session: str) -> None:
    with pytest.raises(ValidationError, match="session"):
        ContextRef(session=session, version=0, digest="0" * 64)


def test_a_negative_version_is_refused() -> None:
    with pytest.raises(ValidationError, match="version"):
        ContextRef(session="s1", version=-1, digest="0" * 64)
