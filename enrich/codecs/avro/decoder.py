"""Decodes Avro records: bare bodies of one known schema, or bodies framed with the id of their writer's schema."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from enrich.base.errors import BadRecord, ConfigError
from enrich.codecs.avro.body import decode_bodies
from enrich.codecs.avro.node import Node
from enrich.codecs.avro.plan import compile_plan
from enrich.codecs.avro.schemas.source import SchemaSource
from enrich.codecs.avro.schemas.types import Record, load_schema
from enrich.codecs.rows import Indexes, assemble, decode_in_batches, extents
from stores.protocol import Decoded

# Confluent's framing: a zero byte and the schema id in four bytes, big-endian.
_HEADER = 5
_MOST_PLANS = 1_000


class BareAvro:
    """Bodies without framing, all of one schema. Raises ConfigError if the schema cannot fill the columns."""

    def __init__(self, columns: pa.Schema, schema: str) -> None:
        self._kind = pa.struct(list(columns))
        record = load_schema(schema)
        _require(record, self._kind)
        self._node = compile_plan(record, None, self._kind)

    def decode(self, values: pa.BinaryArray) -> Decoded:
        return decode_in_batches(values, self._kind, self._decode_batch)

    def _decode_batch(self, values: pa.BinaryArray) -> Decoded:
        content, starts, ends = extents(values)
        present = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        decoded = decode_bodies(self._node, content, starts[present], ends[present], self._kind)
        bad = {int(present[index]): reason for index, reason in decoded.bad.items()}
        return Decoded(assemble(len(values), [(present, decoded.rows)], self._kind), bad)


class FramedAvro:
    """Bodies framed with the id of their writer's schema; resolved to the table's own schema, if it has one.

    Raises ConfigError if the table's own schema cannot fill the columns. If a writer's schema cannot, only its records
    are bad.
    """

    def __init__(self, columns: pa.Schema, schemas: SchemaSource, schema: str | None = None) -> None:
        self._kind = pa.struct(list(columns))
        self._schemas = schemas
        self._reader: Record | None = None
        if schema is not None:
            self._reader = load_schema(schema)
            _require(self._reader, self._kind)
            compile_plan(self._reader, None, self._kind)
        self._plans: dict[int, Node | str] = {}

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Raises Unreachable and ConfigError as `SchemaSource` does."""
        return decode_in_batches(values, self._kind, self._decode_batch)

    def _decode_batch(self, values: pa.BinaryArray) -> Decoded:
        content, starts, ends = extents(values)
        present = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        framed, bad = _framed(content, starts, ends, present)
        ids = _ids(content, starts[framed])
        pieces = []
        for schema_id in np.unique(ids).tolist():
            rows = framed[ids == schema_id]
            plan = self._plan(schema_id)
            if isinstance(plan, str):
                bad.update(dict.fromkeys(rows.tolist(), plan))
                continue
            decoded = decode_bodies(plan, content, starts[rows] + _HEADER, ends[rows], self._kind)
            bad.update((int(rows[index]), reason) for index, reason in decoded.bad.items())
            pieces.append((rows, decoded.rows))
        return Decoded(assemble(len(values), pieces, self._kind), bad)

    def _plan(self, schema_id: int) -> Node | str:
        """The node that reads the schema's records, or the reason why they cannot be read."""
        plan = self._plans.get(schema_id)
        if plan is None:
            try:
                text = self._schemas.get(schema_id)
            except BadRecord as error:  # not cached: the schema may be registered later
                return str(error)
            plan = self._compiled(schema_id, text)
            if len(self._plans) >= _MOST_PLANS:  # only a bound: nobody has so many, and plans can be compiled again
                self._plans = {}
            self._plans[schema_id] = plan
        return plan

    def _compiled(self, schema_id: int, text: str) -> Node | str:
        try:
            return compile_plan(load_schema(text), self._reader, self._kind)
        except ConfigError as error:
            return f"schema {schema_id}: {error.what}"


def _framed(
    content: npt.NDArray[np.uint8], starts: Indexes, ends: Indexes, present: Indexes
) -> tuple[Indexes, dict[int, str]]:
    """The rows that have a framing header, and why the others are bad."""
    long_enough = ends[present] - starts[present] >= _HEADER
    bad = dict.fromkeys(present[~long_enough].tolist(), "too short for the id of a schema")
    present = present[long_enough]
    marked = content[starts[present]] == 0
    reason = "does not start with the zero byte of Confluent's framing"
    bad.update(dict.fromkeys(present[~marked].tolist(), reason))
    return present[marked], bad


def _ids(content: npt.NDArray[np.uint8], starts: Indexes) -> npt.NDArray[np.uint32]:
    ids: npt.NDArray[np.uint32] = content[starts[:, None] + np.arange(1, _HEADER)].view(">u4")[:, 0].astype(np.uint32)
    return ids


def schema_ids(values: pa.BinaryArray) -> pa.Int64Array:
    """The id before each body; null where there is none."""
    content, starts, ends = extents(values)
    present = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    framed, _ = _framed(content, starts, ends, present)
    ids, missing = np.zeros(len(values), np.int64), np.ones(len(values), np.bool_)
    ids[framed], missing[framed] = _ids(content, starts[framed]), False
    return pa.array(ids, mask=missing)


def _require(schema: Record, kind: pa.StructType) -> None:
    names = {field.name for field in schema.fields}
    for column in kind:
        if column.name not in names:
            raise ConfigError(
                f"column {column.name} is no field of the avro schema", next_step=f"its fields: {', '.join(names)}"
            )
