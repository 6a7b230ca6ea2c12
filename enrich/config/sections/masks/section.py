"""The section `masks`: by topic or table and by column, what the stages see of an event."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, WithJsonSchema

from enrich.config.messages.masking import Password
from enrich.config.messages.words import Wrong, shown
from enrich.config.types.fields import Secret, Section, one_of

RECORD_KEY = "_key"
"""Stands among a topic's columns for the key of its records."""
_SHORTEST_KEY = 16
_ENTRY = re.compile(r"[A-Za-z0-9._*?-]{1,249}")


class Masking(StrEnum):
    show = "show"
    withhold = "withhold"
    null = "null"
    redact = "redact"
    partial = "partial"
    hmac = "hmac"


TO_TEXT = (Masking.redact, Masking.partial, Masking.hmac)
"""What makes text of a value, whatever it was."""


def _as_columns(value: object) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not value:
        given = shown(value) if value else "nothing"
        raise Wrong(f"expected columns with their masks, such as {{id: show, email: hmac}}, got {given}")
    found: dict[str, str] = {}
    for name, mask in value.items():
        if not isinstance(name, str) or not name:
            raise Wrong(f"expected the name of a column, or a pattern such as *_email, got {shown(name)}")
        if mask is not None and not isinstance(mask, str):
            raise Wrong(f"expected a mask such as show or hmac for {name}, got {shown(mask)}")
        found[name] = "null" if mask is None else str(mask)  # YAML's null is the mask of that name
    return found


def _as_key(value: object) -> Password:
    text = value.get_secret_value() if isinstance(value, Password) else value
    if not isinstance(text, str) or len(text) < _SHORTEST_KEY:
        raise Wrong(f"expected a secret of at least {_SHORTEST_KEY} characters, in quotes if it looks like a number")
    return Password(str(text))


ColumnMasks = Annotated[
    Mapping[str, str],
    BeforeValidator(_as_columns),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["string", "null"]}, "minProperties": 1}),
]
"""The mask of each column, or the tag that says it."""


class Masks(Section):
    """What stages see of the columns of events. Other keys are topics or tables, or patterns of them."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, ColumnMasks]

    default: Annotated[Masking, one_of(Masking)] = Masking.withhold
    """The mask of columns that nothing below names."""
    key: Annotated[Secret, BeforeValidator(_as_key)]
    """The secret key of `hmac`, of at least 16 characters. With another key the same values become others."""
    tags: Mapping[str, Annotated[Masking, one_of(Masking)]] = {}
    """Words for masks, such as `personal: hmac`, to be given to columns instead of masks."""

    @property
    def secret(self) -> bytes:
        return self.key.get_secret_value().encode()

    @property
    def entries(self) -> Mapping[str, Mapping[str, str]]:
        """By topic, table or pattern, in the file's order."""
        return self.__pydantic_extra__

    def masking(self, word: str) -> Masking | None:
        """What a mask or tag means; None for a word that is neither."""
        if word in self.tags:
            return self.tags[word]
        return Masking(word) if word in Masking.__members__ else None


def is_entry(name: str) -> bool:
    """Whether it can be the name of a topic or table, or a pattern with `*` and `?`."""
    return _ENTRY.fullmatch(name) is not None
