"""Models by name."""

import os
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from pydantic import Field, TypeAdapter, ValidationError

from countermand.agents.cassette import CassetteInvalid, CassetteModel, CassetteName, Mode, cassette_at
from countermand.agents.personas import PERSONAS
from countermand.agents.scripted import ScriptedModel, ScriptInvalid, load_script
from countermand.agents.stub import StubModel
from countermand.saga.errors import CountermandError

TIMEOUT = "COUNTERMAND_MODEL_TIMEOUT"
"""The variable that says how many seconds a provider may be silent, 60 if it is not set; retries are Temporal's."""

MAX_TIMEOUT = 80
"""Seconds; ``think``, which asks once, may take 90."""

ALLOWED = "COUNTERMAND_ALLOW_MODEL_REQUESTS"
"""The variable that forbids requests to real models where it is 0, as it is in tests."""

FORMS = "stub[:persona], script:PATH, cassette:PATH, or provider:model (openai:gpt-5, ollama:qwen3)"

_OURS = frozenset({"stub", "script", "cassette"})


class _Provider(NamedTuple):
    """One whose package is an extra of ours: how its client is called."""

    package: str
    key: str | None
    options: Callable[[float], Mapping[str, Any]]


def _bounded(timeout: float) -> Mapping[str, Any]:
    return {"timeout": timeout, "max_retries": 0}


def _bounded_openai(timeout: float) -> Mapping[str, Any]:
    # Asked for, since the client leaves usage out of streams where a base URL is set.
    return {**_bounded(timeout), "stream_usage": True}


def _bounded_ollama(timeout: float) -> Mapping[str, Any]:
    # It ignores the options of the others, and never retries.
    return {"client_kwargs": {"timeout": timeout}}


_PROVIDERS = {
    "openai": _Provider("langchain_openai", "OPENAI_API_KEY", _bounded_openai),
    "anthropic": _Provider("langchain_anthropic", "ANTHROPIC_API_KEY", _bounded),
    "ollama": _Provider("langchain_ollama", None, _bounded_ollama),
}


class ModelUnavailable(CountermandError):
    """There is no such model, or what it needs is missing; the message says what to install or set."""


def check_model_name(name: str) -> None:
    """Refuse a name that can't be a model's, before anything is started.

    Raises:
        ModelUnavailable: With the forms that a name may have.
    """
    kind, _, rest = name.partition(":")
    if kind == "stub" and (rest or "order") not in PERSONAS:
        raise ModelUnavailable(f"the stub has no persona {rest!r}; it has {', '.join(PERSONAS)}")
    if kind == "script":
        _scripted(name, Path(rest))
    if kind == "cassette":
        _cassette(rest)
    if kind not in _OURS and not re.fullmatch(r"[a-z0-9_]+:\S+", name):
        raise ModelUnavailable(f"{name[:80]!r} names no model: use {FORMS}")


def check_provider(name: str) -> None:
    """Refuse a model whose provider's package or key is missing in this process.

    Raises:
        ModelUnavailable: With what to install or set.
    """
    kind = name.partition(":")[0]
    if kind in _OURS:
        return
    if os.environ.get(ALLOWED) == "0":
        raise ModelUnavailable(
            f"{name}: requests to real models are forbidden here: use stub, script:PATH or cassette:PATH, "
            f"or set {ALLOWED}=1"
        )
    known = _PROVIDERS.get(kind)
    if known is not None and find_spec(known.package) is None:
        raise ModelUnavailable(f"{name}: its client is missing: pip install 'countermand[{kind}]'")
    if known is not None and known.key is not None and not os.environ.get(known.key):
        raise ModelUnavailable(f"{name}: set {known.key} where the worker runs, and start the worker anew")


def resolve_model(name: str) -> BaseChatModel:
    """The chat model of that name.

    Raises:
        ModelUnavailable: See ``check_model_name`` and ``check_provider``.
    """
    check_model_name(name)
    check_provider(name)
    kind, _, rest = name.partition(":")
    if kind == "stub":
        return StubModel(persona=rest or "order")
    if kind == "script":
        return _scripted(name, Path(rest))
    if kind == "cassette":
        return _played(_cassette(rest))
    options = _PROVIDERS[kind].options if kind in _PROVIDERS else _bounded
    try:
        return cast("BaseChatModel", init_chat_model(name, **options(_timeout())))
    except Exception as error:
        # Each provider's client complains of a missing key or an unknown name in its own way.
        raise ModelUnavailable(f"{name}: {' '.join(str(error).split())[:300]}") from error


def _timeout() -> float:
    said = os.environ.get(TIMEOUT, "60")
    try:
        return TypeAdapter(Annotated[float, Field(gt=0, le=MAX_TIMEOUT)]).validate_python(said)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise ModelUnavailable(f"{TIMEOUT}: {reason}: say seconds, as in 60, where the worker runs") from error


def _scripted(name: str, path: Path) -> ScriptedModel:
    if not path.is_file():
        raise ModelUnavailable(f"there is no script {str(path)!r}")
    try:
        return ScriptedModel(steps=load_script(path), source=name)
    except ScriptInvalid as error:
        raise ModelUnavailable(str(error)) from error


def _cassette(name: str) -> CassetteName:
    try:
        return CassetteName.parse(name)
    except CassetteInvalid as error:
        raise ModelUnavailable(str(error)) from error


def _played(name: CassetteName) -> CassetteModel:
    try:
        cassette = cassette_at(name.path.absolute())
    except CassetteInvalid as error:
        raise ModelUnavailable(str(error)) from error
    if name.mode is Mode.ALL:
        cassette.erase()
    records = name.mode is Mode.ALL or (name.mode is Mode.ONCE and not name.path.is_file())
    return CassetteModel(cassette=cassette, behind=resolve_model(name.model) if name.model and records else None)
