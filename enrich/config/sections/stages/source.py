"""The source of a stage: the topics that it reads, and how their events are encoded."""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from enrich.config.messages.words import Wrong, shown
from enrich.config.types.column_types import Column
from enrich.config.types.columns import ColumnList, Columns, parse_columns
from enrich.config.types.encoding import AvroSchema, Encoded, Format
from enrich.config.types.fields import TOPIC_PATTERN, Topic, as_text, each_once, one_of

# Of regular expressions, what Java and Python read alike.
_PIECE = re.compile(r"[A-Za-z0-9_.|)*+?-]|\((?!\?)|\\[.dw-]|\[\^?(?:[A-Za-z0-9._-]|\\[.dw-])+\]|\{\d+(?:,\d*)?\}|\(\?:")
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""Topics of the brokers themselves. Spark leaves them out of a pattern too."""


def _as_topics(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise Wrong(f"expected a list of topics such as [plays, ads], got {shown(value) if value else 'nothing'}")
    for name in value:
        if not isinstance(name, str) or not re.fullmatch(TOPIC_PATTERN, name):
            raise Wrong(f"expected topic names of at most 249 letters, digits, . _ and -, got {shown(name)}")
    return each_once(tuple(str(name) for name in value))


def _as_pattern(value: object) -> str:
    text = as_text(value)
    expected = r"expected a pattern such as plays\..* of letters, digits and . _ - \ * + ? | ( ) [ ] { }"
    place = 0
    while place < len(text):
        piece = _PIECE.match(text, place)
        if piece is None:
            raise Wrong(f"{expected}, got {shown(value)}", place)
        place = piece.end()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(text)
    except (re.error, FutureWarning) as error:
        raise Wrong(f"not a pattern: {error}") from None
    return str(text)


class Tombstones(StrEnum):
    dlq = "dlq"
    forward = "forward"
    drop = "drop"


Topics = Annotated[
    tuple[str, ...],
    BeforeValidator(_as_topics),
    WithJsonSchema(
        {"type": "array", "items": {"type": "string", "pattern": TOPIC_PATTERN}, "minItems": 1, "uniqueItems": True}
    ),
]
TopicPattern = Annotated[str, BeforeValidator(_as_pattern), WithJsonSchema({"type": "string", "minLength": 1})]


class Source(Encoded):
    """Where the events come from."""

    topic: Topic | None = None
    """The topic that the events come from."""
    topics: Topics | None = None
    """Instead of `topic`: a list of topics. One that is added later is read from its beginning."""
    topic_pattern: TopicPattern | None = None
    """Instead of `topic`: a regular expression for whole names of topics. Those that are made later are read, too, from
    their beginning."""
    schemas: Mapping[Topic, ColumnList] | None = None
    """For json, instead of `schema`, when the topics differ: the fields of each topic, as column lists. A field that
    several of them have must have the same type in all; it is null in events that lack it."""

    tombstones: Annotated[Tombstones, one_of(Tombstones)] = Tombstones.dlq
    """What becomes of records without a value, which say that their key is deleted: `dlq`; `forward`, on every route
    that has neither `key` nor `explode`, whatever its `when`; or `drop`. The last two need `routes`."""

    @classmethod
    def schema_parser(cls, encoding: Format) -> Callable[[str], Columns]:
        if encoding == Format.json:
            return parse_columns
        raise Wrong(f"only for format: json or avro, and the format is {encoding}; the event has the field `value`")

    @property
    def all_topics(self) -> tuple[str, ...]:
        """The topics that are named; none with a pattern."""
        return (self.topic,) if self.topic is not None else self.topics or ()

    @property
    def is_one_topic(self) -> bool:
        return len(self.all_topics) == 1

    def reads(self, topic: str) -> bool:
        if self.topic_pattern is None:
            return topic in self.all_topics
        return topic not in _INTERNAL and re.fullmatch(self.topic_pattern, topic) is not None

    @property
    def shown(self) -> str:
        """As messages name it."""
        if self.topic_pattern is not None:
            return f"topics of the pattern {self.topic_pattern}"
        return f"topic{'' if self.is_one_topic else 's'} {', '.join(self.all_topics)}"

    @cached_property
    def columns(self) -> Columns | None:
        """The fields of events in JSON, of all topics together."""
        if self.schemas is not None:
            return together(self.schemas)
        return self.schema_ if isinstance(self.schema_, Columns) else None

    @property
    def fields(self) -> tuple[str, ...] | None:
        """The names that expressions can use; None when only the registry knows them."""
        if self.columns is not None:
            return self.columns.names
        if isinstance(self.schema_, AvroSchema):
            return self.schema_.fields
        return ("value",) if self.format in (Format.bytes, Format.string) else None


def together(schemas: Mapping[str, Columns]) -> Columns:
    """All fields of all topics; the first topic that has a field decides. One that a topic lacks may be null."""
    found: dict[str, Column] = {}
    for columns in schemas.values():
        for column in columns.columns:
            found.setdefault(column.name.casefold(), column)
    everywhere = {
        name
        for name in found
        if all((other := each.find(name, ignore_case=True)) and not other.nullable for each in schemas.values())
    }
    return Columns(tuple(Column(each.name, each.type, nullable=name not in everywhere) for name, each in found.items()))


def differing(schemas: Mapping[str, Columns]) -> Iterator[tuple[str, str, str]]:
    """The fields that topics declare differently, as (topic, the topic that has it first, what differs)."""
    first: dict[str, tuple[str, Column]] = {}
    for topic, columns in schemas.items():
        for column in columns.columns:
            other, known = first.setdefault(column.name.casefold(), (topic, column))
            if known.name != column.name:
                yield topic, other, f"{known.name} and {column.name} differ in case only"
            elif known.type != column.type:
                yield topic, other, f"{column.name} is {column.type} here and {known.type} in {other}"
