"""Formats: raw values to typed Arrow rows and back, a batch at a time. Knows no Kafka client and no store.

Every decoder keeps the promises of `stores.protocol.Decoder`: a row for each value, null for a tombstone, and for what
cannot be decoded a null row and a reason that names the place in the value, never the value. Each has a fast way for
many good values and a strict one that decides alone wherever the fast one leaves a doubt. `decoder_for` picks the
decoder of a table.
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
