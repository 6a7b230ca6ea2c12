"""The key `settings` of a stage: Spark's own settings, by Spark's names. Secrets of file systems are among them."""

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, PlainSerializer, PlainValidator, SerializationInfo, WithJsonSchema

from enrich.config.messages.masking import SECRET_NAMES, Password, SecretAddress
from enrich.config.messages.words import Wrong, shown

SettingValue = Password | SecretAddress | int | bool
"""A text is shown with the passwords in it masked, and is not shown at all under the name of a secret."""


def as_spark_takes(settings: "Settings | None") -> dict[str, str]:
    """The true values, as texts."""
    return {name: _text(value) for name, value in (settings or {}).items()}


def _text(value: SettingValue) -> str:
    if isinstance(value, Password | SecretAddress):
        return value.get_secret_value()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_value(value: object) -> SettingValue:
    if isinstance(value, Password | SecretAddress | int):
        return value
    if isinstance(value, str):
        return SecretAddress(str(value))
    quote = ": put it in quotes" if isinstance(value, float) else ""
    raise Wrong(f"expected text, a whole number, true or false, got {shown(value)}{quote}")


def _without_secrets(settings: Mapping[str, SettingValue]) -> Mapping[str, SettingValue]:
    """Only here the names are known."""
    return {
        name: Password(_text(value)) if re.search(SECRET_NAMES, name) else value for name, value in settings.items()
    }


def _shown(value: SettingValue, info: SerializationInfo) -> object:
    return str(value) if isinstance(value, Password | SecretAddress) and info.mode == "json" else value


_Value = Annotated[
    SettingValue,
    PlainValidator(_as_value),
    PlainSerializer(_shown),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}]}),
]
Settings = Annotated[Mapping[str, _Value], AfterValidator(_without_secrets)]
