"""Makes encoders from the configuration."""

from typing import TYPE_CHECKING

from enrich.base.errors import ConfigError
from enrich.codecs.avro.encoding.rows import AvroEncoder
from enrich.codecs.encoding import Encoder
from enrich.codecs.json.encoding import JsonEncoder
from enrich.codecs.plain import PlainEncoder

if TYPE_CHECKING:
    from enrich.config import KafkaSection, SyncSource, Table


def encoder_for(source: "SyncSource", kafka: "KafkaSection") -> Encoder:
    """For avro with Confluent's framing, asks the registry for the newest schema of the topic's values.

    Raises ConfigError if it has none, Unreachable if it does not answer.
    """
    if str(source.format) == "json":
        return JsonEncoder()
    if source.schema_ is not None:
        return AvroEncoder(str(source.schema_))
    return _registered(source.topic, kafka)


def encoder_of_table(table: "Table", kafka: "KafkaSection") -> Encoder:
    """The encoder of values that the table's decoder reads. Raises as `encoder_for`."""
    match str(table.format):
        case "json":
            return JsonEncoder()
        case "bytes" | "string":
            return PlainEncoder(table.columns.names[0])
    if table.schema_ is not None and str(table.framing) == "bare":
        return AvroEncoder(str(table.schema_))
    return _registered(str(table.topic), kafka)


def _registered(topic: str, kafka: "KafkaSection") -> Encoder:
    if kafka.registry is None:
        raise ConfigError("avro needs schema, file, or a registry", next_step="set kafka.registry.url")
    from enrich.codecs.avro.schemas.registry import Registry, access_of

    schema_id, schema = Registry(access_of(kafka.registry)).latest(f"{topic}-value")
    return AvroEncoder(schema, schema_id)
