"""Formats: decode raw values to typed Arrow rows and back, in batches. Independent of Kafka clients and stores.

Every decoder implements `stores.protocol.Decoder`: a row for each value, null for a tombstone. For a value that cannot
be decoded it returns a null row and a reason that names the position in the value, never the value itself. Each has a
fast path for batches of good values, and a strict one that decides about every value that the fast path is not sure of.
`decoder_for` picks the decoder of a table.
"""

from enrich.codecs.avro import BareAvro, CachedSchemas, FramedAvro, KnownSchemas, NotAskedYet, SchemaSource
from enrich.codecs.json.decoder import JsonDecoder
from enrich.codecs.piecewise import Piece, pieces_of
from enrich.codecs.plain import BytesDecoder, StringDecoder
from enrich.codecs.tables import decoder_for, registry_trouble, schemas_of

__all__ = [
    "BareAvro",
    "BytesDecoder",
    "CachedSchemas",
    "FramedAvro",
    "JsonDecoder",
    "KnownSchemas",
    "NotAskedYet",
    "Piece",
    "SchemaSource",
    "StringDecoder",
    "decoder_for",
    "pieces_of",
    "registry_trouble",
    "schemas_of",
]
