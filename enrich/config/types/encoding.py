"""How records are encoded, for tables and sources alike: the format, and for avro where its schema is."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

from pydantic import (
    Field,
    InstanceOf,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from enrich.base.avro import with_float_defaults
from enrich.config.messages.words import Wrong, parsed, shortened
from enrich.config.types.columns import EXPECTED as COLUMNS_EXPECTED
from enrich.config.types.columns import Columns
from enrich.config.types.fields import LocalPath, Section, as_text, fills_in, one_of


class Format(StrEnum):
    json = "json"
    avro = "avro"
    bytes = "bytes"
    string = "string"


class Framing(StrEnum):
    confluent = "confluent"
    bare = "bare"


@dataclass(frozen=True)
class AvroSchema:
    """An Avro schema as JSON text, known to be one that fastavro accepts."""

    text: str

    @cached_property
    def parsed(self) -> Any:
        return json.loads(self.text)

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the record's fields."""
        return tuple(field["name"] for field in self.parsed["fields"])

    def __str__(self) -> str:
        return self.text


def parse_avro_schema(text: str) -> AvroSchema:
    """Raises Wrong for what is no JSON, no Avro schema, or not the schema of a record."""
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema

    try:
        schema = json.loads(text)
        if not isinstance(schema, dict) or schema.get("type") != "record" or not isinstance(schema.get("fields"), list):
            raise Wrong('expected the schema of a record: {"type": "record", "name": ..., "fields": [...]}')
        parse_schema(with_float_defaults(schema))
    except Wrong:
        raise
    except json.JSONDecodeError as error:
        raise Wrong(f"not an Avro schema: no JSON ({error.msg})", error.pos) from None
    except UnknownType as error:
        raise Wrong(f"not an Avro schema: unknown type {shortened(str(error.name))}") from None
    except RecursionError:
        raise Wrong("not an Avro schema: nested too deeply") from None
    except (SchemaParseException, ValueError, KeyError, TypeError, AttributeError) as error:
        # Some faults of a schema fastavro reports as the error that it ran into.
        raise Wrong(f"not an Avro schema: {shortened(str(error))}") from None
    return AvroSchema(text)


def _default_framing(data: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of one's own means bare bodies, a registry Confluent's framing."""
    if data.get("format") != "avro":
        return {}
    inline = data.get("schema") is not None or data.get("file") is not None
    return {"framing": Framing.bare if inline else Framing.confluent}


class Encoded(Section):
    """The keys that tables and sources share."""

    format: Annotated[Format, one_of(Format)]
    """Encoding of the values: `json`, `avro`, `bytes` or `string`."""
    schema_: Annotated[
        InstanceOf[Columns] | InstanceOf[AvroSchema] | None,
        PlainSerializer(lambda value: None if value is None else str(value)),
        WithJsonSchema({"type": "string", "minLength": 1}),
    ] = Field(default=None, alias="schema")
    """For avro: the schema of a record as JSON text, instead of a registry's. For the json events of a stage: the
    fields that expressions use, as a column list."""
    file: LocalPath | None = None
    """For avro: a file with the schema instead of its text. It is read at start; `config show` shows it as
    `schema`."""
    framing: Annotated[Framing, one_of(Framing)] | None = None
    """For avro, what stands before a body: `confluent` (a schema's id) or `bare` (nothing; needs `schema` or `file`).
    Default: `bare` with `schema` or `file`, else `confluent`."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_framing(cls, data: object) -> object:
        return fills_in(data, _default_framing)

    @field_validator("schema_", mode="before")
    @classmethod
    def _parse_schema(cls, value: object, info: ValidationInfo) -> Columns | AvroSchema | None:
        encoding = info.data.get("format")
        if isinstance(value, Columns | AvroSchema):
            return value
        if value is None or encoding is None:
            return None
        text = value if isinstance(value, str) and value.strip() else as_text(value)
        if encoding == Format.avro:
            return parsed(text, parse_avro_schema, "an Avro schema")
        return parsed(text, cls.schema_parser(encoding), COLUMNS_EXPECTED)

    @classmethod
    def schema_parser(cls, encoding: Format) -> Callable[[str], Columns]:
        """How to read `schema` where the format is not avro. Raises Wrong where it has no meaning."""
        raise Wrong(f"only for format: avro, and the format is {encoding}")
