"""What sections are made of: the frozen base model, and field types whose errors speak of YAML, not of Python."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    SerializationInfo,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, core_schema

from enrich.base.signing import WANTED, signing_key
from enrich.config.messages.masking import Password, SecretAddress
from enrich.config.messages.words import Substituted, Wrong, listed, nearest, shown
from enrich.config.types.addresses import why_unusable

Choice = TypeVar("Choice", bound=StrEnum)

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"
TOPIC_PATTERN = r"^[A-Za-z0-9._-]{1,249}$"


class Section(BaseModel):
    """A part of the configuration file. It never changes once it is loaded, and refuses keys that it does not know.

    The text below a key describes it to users, in the reference and in messages (`keys_of` in shape.py).
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,  # a value may be a secret; what may be shown, our own messages show
        serialize_by_alias=True,
    )

    derived: ClassVar[Mapping[str, str]] = {}
    """Keys with a derived default, and the key that each is derived from."""

    @classmethod
    def why_refused(cls, key: str) -> str | None:  # noqa: ARG003 - for sections that override it
        """Why a key that people may try here is refused; None if it is simply unknown."""
        return None


def fills_in(data: object, derive: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> object:
    """The mapping with defaults derived from its other keys; anything else unchanged, for pydantic to refuse."""
    if not isinstance(data, Mapping):
        return data
    return {**data, **{key: value for key, value in derive(data).items() if data.get(key) is None}}


def as_text(value: object) -> str:
    if isinstance(value, str) and value.strip():
        return str(value)
    quote = ": put it in quotes" if isinstance(value, bool | int | float) else ""
    raise Wrong(f"expected text, got {shown(value)}{quote}")


def as_flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, Substituted) and value in ("true", "false"):
        return bool(value == "true")
    raise Wrong(f"expected true or false, got {shown(value)}")


def as_integer(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, Substituted) and re.fullmatch("[-+]?[0-9]{1,18}", value):
        return int(value)
    raise Wrong(f"expected a whole number, got {shown(value)}")


@dataclass(frozen=True)
class Between:
    """`Annotated[int, Between(1, 5)]`: whole numbers of a range, both ends included."""

    low: int
    high: int

    def check(self, value: object) -> int:
        number = as_integer(value)
        if not self.low <= number <= self.high:
            raise Wrong(f"expected a whole number from {self.low} to {self.high}, got {shown(value)}")
        return number

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


def one_of(kind: type[Choice]) -> BeforeValidator:
    """The values of an enum, as text. YAML's null is the value `null`, where there is one."""
    options = [member.value for member in kind]

    def check(value: object) -> Choice:
        if value is None and "null" in options:
            return kind("null")
        if isinstance(value, str) and value in options:
            return kind(str(value))
        # A value from the environment is not compared: what is near to it would tell what it is.
        close = nearest(value, options) if isinstance(value, str) and not isinstance(value, Substituted) else None
        raise Wrong(f"expected {listed(options)}, got {shown(value)}{f'; did you mean {close}?' if close else ''}")

    return BeforeValidator(check)


@dataclass(frozen=True)
class Matching:
    """`Annotated[str, Matching(pattern, "a name of ...")]`: text of a pattern."""

    pattern: str
    expected: str

    def check(self, value: object) -> str:
        if isinstance(value, str) and re.fullmatch(self.pattern, value) and value not in (".", ".."):
            return str(value)
        raise Wrong(f"expected {self.expected}, got {shown(value)}")

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "pattern": self.pattern}


def as_local_path(value: object) -> str:
    text = as_text(value)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text):
        raise Wrong(f"expected a path of the local file system, got {shown(value)}")
    return _absolute(text)


def _as_location(value: object) -> str:
    text = as_text(value)
    return text if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", text) else _absolute(text)


def _as_file_address(value: object) -> str:
    text = as_text(value)
    return text if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) else _absolute(text)


def _absolute(path: str) -> str:
    if "\0" in path:
        raise Wrong("expected a path, got a text with a zero byte")
    return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 - resolves `..` without following links


def list_of_text(what: str) -> BeforeValidator:
    def check(value: object) -> tuple[str, ...]:
        items = (value,) if isinstance(value, str) else value
        if not isinstance(items, list | tuple) or not items:
            raise Wrong(f"expected {what}, got {shown(value) if value != [] else 'an empty list'}")
        return tuple(as_text(item) for item in items)

    return BeforeValidator(check)


def _as_names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise Wrong(f"expected a list of names such as [plan, region], got {shown(value) if value else 'nothing'}")
    return each_once(tuple(as_text(item) for item in value))


def each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Wrong(f"{shown(twice)} occurs twice")
    return names


def _as_password(value: object) -> Password:
    if isinstance(value, Password):
        return value
    # Show nothing of the value, not even its type: a password that looks like a number is still a password.
    if not isinstance(value, str) or not value:
        raise Wrong("expected a password: text that is not empty, in quotes if it looks like a number")
    return Password(str(value))


def _as_secrets(value: object) -> tuple[Password, ...]:
    items = value if isinstance(value, list | tuple) else (value,)
    if not items:
        raise Wrong("expected a secret or a list of them, got an empty list")
    return tuple(_as_password(item) for item in items)


def _as_signing(secrets: tuple[Password, ...]) -> tuple[Password, ...]:
    if any(signing_key(secret.get_secret_value()) is None for secret in secrets):
        raise Wrong(f"expected {WANTED}")
    return secrets


def _as_address(schemes: Iterable[str], example: str) -> BeforeValidator:
    def check(value: object) -> SecretAddress:
        if isinstance(value, SecretAddress):
            return value
        text = as_text(value) if isinstance(value, str) else ""
        if not any(re.match(scheme, text) for scheme in schemes):
            raise Wrong(f"expected an address such as {example}")
        wrong = why_unusable(text)
        if wrong is not None:
            raise Wrong(f"{wrong}. Expected an address such as {example}")
        return SecretAddress(text)

    return BeforeValidator(check)


def _shown(value: Password | SecretAddress, info: SerializationInfo) -> object:
    return value if info.mode == "python" else str(value)


LIST_OR_TEXT = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
    ]
}
_NAMES = {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True}
_TEXT = {"type": "string", "minLength": 1}

Text = Annotated[str, BeforeValidator(as_text), WithJsonSchema(_TEXT)]
Flag = Annotated[bool, BeforeValidator(as_flag), WithJsonSchema({"type": "boolean"})]
Name = Annotated[
    str, Matching(NAME_PATTERN, "a name of at most 63 letters, digits, _ and - that starts with a letter or digit")
]
Identifier = Annotated[str, Matching(r"^[A-Za-z_][A-Za-z0-9_]*$", "a name of letters, digits and _")]
Topic = Annotated[str, Matching(TOPIC_PATTERN, "a topic name of at most 249 letters, digits, . _ and -")]
HeaderName = Annotated[str, Matching(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", "a name of letters, digits, . _ and -")]
LocalPath = Annotated[str, BeforeValidator(as_local_path), WithJsonSchema(_TEXT)]
"""A path of this machine's file system, made absolute: relative ones start at the working directory."""
Location = Annotated[str, BeforeValidator(_as_location), WithJsonSchema(_TEXT)]
"""A path or a URI (`hdfs://...`) that Spark's file systems understand."""
SourceFile = Annotated[str, BeforeValidator(_as_file_address), WithJsonSchema(_TEXT)]
"""A path of this machine's file system, made absolute, or an address such as `s3://bucket/file.csv`."""
_ONE_OR_LIST = PlainSerializer(lambda texts: texts[0] if len(texts) == 1 else list(texts))
Expressions = Annotated[
    tuple[str, ...],
    list_of_text("an expression such as user_id, or a list of them"),
    _ONE_OR_LIST,
    WithJsonSchema(LIST_OR_TEXT),
]
Patterns = Annotated[
    tuple[str, ...],
    list_of_text("a pattern such as app.*, or a list of them"),
    _ONE_OR_LIST,
    WithJsonSchema(LIST_OR_TEXT),
]
Names = Annotated[tuple[str, ...], BeforeValidator(_as_names), WithJsonSchema(_NAMES)]
Secret = Annotated[Password, BeforeValidator(_as_password), PlainSerializer(_shown), WithJsonSchema({"type": "string"})]
Secrets = Annotated[
    tuple[Password, ...],
    BeforeValidator(_as_secrets),
    PlainSerializer(lambda secrets, info: [_shown(secret, info) for secret in secrets]),
    WithJsonSchema(LIST_OR_TEXT),
]
"""One or several, written as text or as a list."""
SigningSecrets = Annotated[Secrets, AfterValidator(_as_signing)]
"""Of Standard Webhooks."""
RedisUrl = Annotated[
    SecretAddress,
    _as_address((r"rediss?://\S+$", r"unix://\S+$"), "redis://host:6379/0"),
    PlainSerializer(_shown),
    WithJsonSchema({"type": "string", "pattern": "^(rediss?|unix)://"}),
]
PostgresDsn = Annotated[
    SecretAddress,
    _as_address((r"postgres(ql)?://\S+$", r"\s*\w+\s*="), "postgresql://user@host/database"),
    PlainSerializer(_shown),
    WithJsonSchema(_TEXT),
]
HttpUrl = Annotated[
    SecretAddress,
    _as_address((r"https?://[^\s/]+\S*$",), "https://host:8081"),
    PlainSerializer(_shown),
    WithJsonSchema({"type": "string", "pattern": "^https?://"}),
]

_PORT = "([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
LISTEN_PATTERN = rf"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):{_PORT}$"

_HEX = "[0-9A-Fa-f.]*"
HostAddress = Annotated[
    str,
    Matching(
        rf"^(\[?{_HEX}:{_HEX}:[0-9A-Fa-f:.]*\]?|[A-Za-z0-9._-]+)$",
        "an address without a port, such as 0.0.0.0 or ::",
    ),
]
ListenAddress = Annotated[str, Matching(LISTEN_PATTERN, "an address such as 127.0.0.1:9400 or [::1]:9400")]
