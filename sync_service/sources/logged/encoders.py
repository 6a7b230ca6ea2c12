"""How rows of tables are encoded: all alike, or each table by a schema in the registry that follows its columns."""

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from enrich.base.errors import ConfigError
from enrich.codecs.avro.encoding.rows import AvroEncoder
from enrich.codecs.avro.schemas.deriving import NoSchema, derived
from enrich.codecs.avro.schemas.registry import Registry
from enrich.codecs.encoding import Encoder


class Encoders(Protocol):
    def newest(self, topic: str, fields: Sequence[pa.Field]) -> tuple[Encoder, int | None]:
        """For a table that has these columns now, with the id of its schema. Raises ConfigError if that may not be."""

    def known(self, topic: str, schema_id: int | None) -> Encoder:
        """The one of this schema."""


class Alike:
    """One encoder for all tables."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def newest(self, topic: str, fields: Sequence[pa.Field]) -> tuple[Encoder, int | None]:  # noqa: ARG002 - see above
        return self._encoder, None

    def known(self, topic: str, schema_id: int | None) -> Encoder:  # noqa: ARG002 - see above
        return self._encoder


class Registered:
    """By the schema that follows from the columns. The registry decides whether it may come after the one before."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def newest(self, topic: str, fields: Sequence[pa.Field]) -> tuple[Encoder, int | None]:
        try:
            schema = derived(pa.struct(fields), topic)
        except NoSchema as error:
            raise ConfigError(str(error), where=f"topic {topic}", next_step="rename or remove the column") from None
        schema_id = self._registry.register(f"{topic}-value", schema)
        # As after a restart, in the registry's own spelling.
        return self.known(topic, schema_id), schema_id

    def known(self, topic: str, schema_id: int | None) -> Encoder:
        if schema_id is None:
            raise ConfigError("the table's schema is not known", where=f"topic {topic}")
        return AvroEncoder(self._registry.get(schema_id), schema_id)
