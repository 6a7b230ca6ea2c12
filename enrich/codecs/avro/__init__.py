"""Avro: schemas compiled once to a tree of nodes, each of which reads its part of many records at once.

`BareAvro` and `FramedAvro` are the decoders; `SchemaSource` is what the framed one asks for schemas. A schema is data
from outside, like the records: nothing it says is done before it was checked, and nothing a record says either.
"""

from enrich.codecs.avro.decoder import BareAvro, FramedAvro
from enrich.codecs.avro.schemas.source import CachedSchemas, KnownSchemas, NotAskedYet, SchemaSource

__all__ = ["BareAvro", "CachedSchemas", "FramedAvro", "KnownSchemas", "NotAskedYet", "SchemaSource"]
