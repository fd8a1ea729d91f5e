"""Models by name."""

import re
from pathlib import Path

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from countermand.agents.desk import PERSONAS
from countermand.agents.scripted import ScriptedModel, ScriptInvalid, load_script
from countermand.agents.stub import StubModel
from countermand.saga.errors import CountermandError

TIMEOUT = 60
"""Seconds that one request to a provider may take; retries are Temporal's."""

FORMS = "stub[:persona], script:PATH, or provider:model (openai:gpt-5, anthropic:claude-sonnet-4-5, ollama:qwen3)"


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
    if kind not in {"stub", "script"} and not re.fullmatch(r"[a-z0-9_]+:\S+", name):
        raise ModelUnavailable(f"{name[:80]!r} names no model: use {FORMS}")


def resolve_model(name: str) -> BaseChatModel:
    """The chat model of that name.

    Raises:
        ModelUnavailable: See ``check_model_name``; or a provider's package or key is missing.
    """
    check_model_name(name)
    kind, _, rest = name.partition(":")
    if kind == "stub":
        return StubModel(persona=rest or "order")
    if kind == "script":
        return _scripted(name, Path(rest))
    try:
        model: BaseChatModel = init_chat_model(name, timeout=TIMEOUT, max_retries=0)
    except ImportError as error:
        raise ModelUnavailable(f"{name}: pip install 'countermand[{kind}]' ({error})") from error
    except Exception as error:
        # Each provider's client complains of a missing key or an unknown name in its own way.
        raise ModelUnavailable(f"{name}: {' '.join(str(error).split())[:300]}") from error
    return model


def _scripted(name: str, path: Path) -> ScriptedModel:
    if not path.is_file():
        raise ModelUnavailable(f"there is no script {str(path)!r}")
    try:
        return ScriptedModel(steps=load_script(path), source=name)
    except ScriptInvalid as error:
        raise ModelUnavailable(str(error)) from error
