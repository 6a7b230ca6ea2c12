"""Avro: a schema is compiled once to a tree of nodes, each of which reads its part of many records at once.

`BareAvro` and `FramedAvro` are the decoders; `FramedAvro` gets schemas from a `SchemaSource`. Schemas and records are
untrusted input: everything in them is checked before it is used.
"""

from enrich.codecs.avro.decoder import BareAvro, FramedAvro
from enrich.codecs.avro.schemas.source import CachedSchemas, KnownSchemas, NotAskedYet, SchemaSource

__all__ = ["BareAvro", "CachedSchemas", "FramedAvro", "KnownSchemas", "NotAskedYet", "SchemaSource"]
