"""Makes decoders from the configuration of tables."""

from typing import TYPE_CHECKING

import pyarrow as pa

from enrich.base.errors import ConfigError, EnrichError
from enrich.codecs.avro import BareAvro, CachedSchemas, FramedAvro, SchemaSource
from enrich.codecs.json.decoder import JsonDecoder
from enrich.codecs.plain import BytesDecoder, StringDecoder
from stores.protocol import Decoder

if TYPE_CHECKING:  # processes that only decode must not have to import pydantic
    from enrich.config import Registry as RegistrySection
    from enrich.config import SyncWriteback, Table


def decoder_for(table: "Table | SyncWriteback", schemas: SchemaSource | None = None) -> Decoder:
    """`schemas`: the schemas for the ids of Confluent's framing. Raises ConfigError for columns that the format cannot
    fill."""
    columns: pa.Schema = table.columns.arrow
    match str(table.format):
        case "json":
            return JsonDecoder(columns)
        case "bytes":
            return BytesDecoder(columns)
        case "string":
            return StringDecoder(columns)
    schema = None if table.schema_ is None else str(table.schema_)
    if str(table.framing) == "confluent":
        if schemas is None:
            raise ConfigError("confluent framing needs a registry", next_step="set kafka.registry.url")
        return FramedAvro(columns, schemas, schema)
    if schema is None:
        raise ConfigError("bare avro bodies need a schema", next_step="give the table a schema or a file")
    return BareAvro(columns, schema)


def schemas_of(section: "RegistrySection | None") -> SchemaSource | None:
    """The registry of the section with a cache, or None."""
    if section is None:
        return None
    from enrich.codecs.avro.schemas.registry import Registry, access_of

    return CachedSchemas(Registry(access_of(section)))


def registry_trouble(section: "RegistrySection | None", deadline_s: float = 5.0) -> EnrichError | None:
    """Why the registry cannot be used; None if it can, or there is none. Else only the first record shows it."""
    if section is None:
        return None
    from enrich.codecs.avro.schemas.registry import Registry, access_of

    try:
        Registry(access_of(section), deadline_s=deadline_s).require()
    except EnrichError as error:
        return error
    return None
