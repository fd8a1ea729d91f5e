"""What must stand in no history and no log: how it is known in a text, and in a tool's model."""

import os
import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BaseModel, JsonValue, TypeAdapter

CARD_NUMBER = "[card number left out]"
SECRET = "[secret left out]"  # noqa: S105 - what stands in its place
ADDRESS = "[e-mail address left out]"

_SECRET_FIELDS = frozenset(
    {
        "password",
        "passphrase",
        "secret",
        "client_secret",
        "api_key",
        "private_key",
        "access_token",
        "card_number",
        "pan",
        "cvc",
        "cvv",
    }
)

# ISO/IEC 7812: 14 to 19 digits of a payment network, in groups or not; the digit after tells an IBAN from a card.
_CARD = re.compile(r"(?<!\d)(?<!\d[ -])(?:[3-6]\d|2[2-7])(?:[ -]?\d){12,17}(?![ -]?\d)")
_SECRET = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\b(?:sk|rk|pk)[-_](?:live_|test_|proj-|ant-)?[A-Za-z0-9_-]{16,}"
    r"|\b(?:whsec|gh[pousr]|github_pat|glpat|xox[abprs])[-_][A-Za-z0-9_-]{16,}"
    r"|\bAKIA[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{35}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
    r"|(?<=://)[^\s/:@]*:[^\s/@]+(?=@)",
    re.DOTALL,
)
_BEARER = re.compile(r"(?i)\b(bearer )[A-Za-z0-9._~+/=-]{8,}")
_CARD_TOKEN = re.compile(r"\b(?:tok|pm)_[A-Za-z0-9_]+")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_NAMES_A_SECRET = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)$")
_SHORTEST = 8
"""Characters of a secret in a variable; what is shorter would be found in many a word."""

_OBJECT: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])


def masked(text: str) -> str:
    """The text without card numbers (by Luhn's check, ISO/IEC 7812-1) and API keys; the same for what is masked."""
    return _BEARER.sub(rf"\1{SECRET}", _SECRET.sub(SECRET, _CARD.sub(_card, text)))


Masked = Annotated[str, AfterValidator(masked)]
"""What a customer says: it can't hold a card number or an API key, wherever it comes from."""


def masked_for_log(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """The text without these, card tokens, e-mail addresses, and the secrets of this process's environment."""
    for name, value in environment.items():
        if _NAMES_A_SECRET.search(name) and len(value) >= _SHORTEST:
            text = text.replace(value, SECRET)
    return _ADDRESS.sub(ADDRESS, _CARD_TOKEN.sub(SECRET, masked(text)))


def secret_field(model: type[BaseModel]) -> str | None:
    """The first field, at any depth, that is a secret by its type (``SecretStr``) or its name; None: there is none."""
    schema = _OBJECT.validate_python(model.model_json_schema())
    return _secret_in(schema)


def _card(found: re.Match[str]) -> str:
    digits = [int(digit) for digit in found[0] if digit.isdigit()]
    # Every second digit from the right counts double, and of two digits their sum.
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return CARD_NUMBER if (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0 else found[0]


def _secret_in(schema: JsonValue) -> str | None:
    if isinstance(schema, list):
        return next((found for item in schema if (found := _secret_in(item))), None)
    if not isinstance(schema, dict):
        return None
    fields = schema.get("properties")
    for name, field in fields.items() if isinstance(fields, dict) else ():
        if name.lower() in _SECRET_FIELDS or _is_secret(field):
            return name
    return next((found for part in schema.values() if (found := _secret_in(part))), None)


def _is_secret(field: JsonValue) -> bool:
    """By the format that pydantic and OpenAPI give to a secret, alone or among alternatives."""
    if isinstance(field, list):
        return any(map(_is_secret, field))
    if not isinstance(field, dict):
        return False
    parts = (field.get("anyOf"), field.get("items"), field.get("additionalProperties"))
    return field.get("format") == "password" or any(map(_is_secret, parts))
