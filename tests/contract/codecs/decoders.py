"""The decoders under contract. A new one is one entry here; the suite runs over all of them."""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from enrich.base.errors import BadRecord
from enrich.codecs import BareAvro, BytesDecoder, FramedAvro, JsonDecoder, StringDecoder
from stores.protocol import Decoder
from tests.property.codecs.avro_values import written

PAYLOAD = "s3cr3t-payload"


@dataclass(frozen=True)
class Case:
    decoder: Decoder
    columns: pa.Schema
    good: tuple[tuple[bytes, Mapping[str, Any]], ...]
    """Values, and the rows that they are."""
    bad: tuple[bytes, ...] = field(default=())
    """Values that are no rows; some with PAYLOAD inside."""


COLUMNS = pa.schema([("plan", pa.string()), ("rps", pa.int32())])
ROWS: tuple[Mapping[str, Any], ...] = (
    {"plan": "gold", "rps": 7},
    {"plan": "ключ 🔑", "rps": -(2**31)},
    {"plan": None, "rps": None},
    {"plan": "x" * 1000, "rps": 0},
)
SCHEMA = {
    "type": "record",
    "name": "Plan",
    "fields": [{"name": "rps", "type": ["null", "int"]}, {"name": "plan", "type": ["null", "string"]}],
}
OLDER = {
    "type": "record",
    "name": "Plan",
    "fields": [{"name": "extra", "type": "bytes"}, {"name": "level", "type": "string"}, {"name": "rps", "type": "int"}],
}
NEWER = {
    "type": "record",
    "name": "Plan",
    "fields": [
        {"name": "plan", "type": ["null", "string"], "aliases": ["level"]},
        {"name": "rps", "type": ["null", "int"], "default": None},
    ],
}
RECURSIVE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}


class Schemas:
    """A source of schemas in memory."""

    def __init__(self, **by_id: Any) -> None:
        self._texts = {int(key.removeprefix("s")): json.dumps(schema) for key, schema in by_id.items()}

    def get(self, schema_id: int) -> str:
        if schema_id not in self._texts:
            raise BadRecord(f"schema id {schema_id} is not known")
        return self._texts[schema_id]


def framed(schema_id: int, body: bytes) -> bytes:
    return struct.pack(">bI", 0, schema_id) + body


def _json() -> Case:
    bad = (
        b"",
        b"{",
        b"[1]",
        json.dumps({"plan": "a", "rps": PAYLOAD}).encode(),
        json.dumps({"plan": {PAYLOAD: 1}}).encode(),
        f'{{"rps":{2**40},"plan":"{PAYLOAD}"}}'.encode(),
        f'{{"plan":"{PAYLOAD}'.encode(),
        b'{"rps":1}{"rps":2}',
        b'{"plan":"\xff"}',
    )
    good = tuple((json.dumps(row, ensure_ascii=False).encode(), row) for row in ROWS)
    return Case(JsonDecoder(COLUMNS), COLUMNS, good, bad)


def _json_with_a_map() -> Case:
    columns = pa.schema([("limits", pa.map_(pa.string(), pa.int32()))])
    good = tuple(
        (json.dumps({"limits": dict(items)}).encode(), {"limits": items}) for items in ([], [("a", 1), ("b", None)])
    )
    bad = (json.dumps({"limits": {"a": PAYLOAD}}).encode(), json.dumps({"limits": {"\ud800": 1}}).encode())
    return Case(JsonDecoder(columns), columns, good, bad)


_BODIES = tuple((written(SCHEMA, row), row) for row in ROWS)
_BROKEN = (
    b"",
    _BODIES[0][0][:-1],
    _BODIES[0][0] + PAYLOAD.encode(),
    b"\x00\x02" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + PAYLOAD.encode(),
    b"\x00\x02\x04\xff\xfe",
    b"\x08",
)


def _bare() -> Case:
    return Case(BareAvro(COLUMNS, json.dumps(SCHEMA)), COLUMNS, _BODIES, _BROKEN)


def _framed() -> Case:
    good = tuple((framed(1, body), row) for body, row in _BODIES)
    none = {"plan": None, "rps": None}
    good = (*good, (framed(2, written({"type": "record", "name": "E", "fields": []}, {})), none))
    bad = (*(framed(1, body) for body in _BROKEN), *_BROKEN, framed(3, PAYLOAD.encode()), framed(4, b"\0"))
    schemas = Schemas(s1=SCHEMA, s2={"type": "record", "name": "E", "fields": []}, s3=RECURSIVE)
    return Case(FramedAvro(COLUMNS, schemas), COLUMNS, good, bad)


def _framed_with_a_schema() -> Case:
    older = ({"extra": b"??", "level": "gold", "rps": 7}, {"plan": "gold", "rps": 7})
    good = (
        *((framed(1, body), row) for body, row in _BODIES),
        (framed(2, written(OLDER, older[0])), older[1]),
    )
    bad = (framed(2, _BODIES[0][0]), framed(5, _BODIES[0][0]), b"\0\0", PAYLOAD.encode())
    decoder = FramedAvro(COLUMNS, Schemas(s1=SCHEMA, s2=OLDER), json.dumps(NEWER))
    return Case(decoder, COLUMNS, good, bad)


def _bytes() -> Case:
    columns = pa.schema([("value", pa.binary())])
    return Case(BytesDecoder(columns), columns, tuple((value, {"value": value}) for value in (b"", b"\xff", b"a" * 99)))


def _string() -> Case:
    columns = pa.schema([("value", pa.string())])
    good = tuple((text.encode(), {"value": text}) for text in ("", "ключ 🔑", "a\0b", "x" * 500))
    return Case(StringDecoder(columns), columns, good, (b"\xff" + PAYLOAD.encode(), b"\xed\xa0\x80", b"\xe2\x82"))


CASES = {
    "json": _json,
    "json with a map": _json_with_a_map,
    "bare avro": _bare,
    "framed avro": _framed,
    "framed avro, own schema": _framed_with_a_schema,
    "bytes": _bytes,
    "string": _string,
}
