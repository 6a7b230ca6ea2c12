"""What stands in for a stage's look-ups, everything else being the same: the ceiling, and peers that ask elsewhere.

Each replaces the one operator that adds answers to events, so that parsing, routing and output are the stage's own.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.functions import arrow_udf, udf  # type: ignore[attr-defined] # missing in its stubs
from pyspark.sql.pandas.types import from_arrow_type

from enrich.codecs import JsonDecoder
from enrich.stage.joining import ANSWER, Joining
from enrich.stage.order import DECIDED_BY, FATE, STATUS, TOLD, Order, object_name

Answer = Callable[..., Column]

OURS, LITERAL, EMPTY = "ours", "literal", "empty"
BROADCAST, REDIS_GET, REDIS_MGET = "broadcast", "redis_get", "redis_mget"

ROW: dict[str, object] = {"plan": "free", "region": "eu-7", "rps": 0}
"""What every event gets where nothing is looked up."""
_FATES = (FATE, DECIDED_BY, STATUS)


def lookups_by(name: str, where: str = "") -> AbstractContextManager[object]:
    """Inside the block stages that are planned get their answers so. `where`: the Redis, or the file to broadcast."""
    if name == OURS:
        return nullcontext()
    if name == BROADCAST:
        return patch.object(Joining, "answered", _broadcast(where))
    answers: dict[str, Answer] = {
        LITERAL: _literal,
        EMPTY: _empty,
        REDIS_GET: _redis_get(where),
        REDIS_MGET: _redis_mget(where),
    }
    return patch("enrich.stage.joining.answer_column", answers[name])


def _literal(order: Order, usable: Column, keys: Sequence[Column], *_: object) -> Column:  # noqa: ARG001
    """The same row for every event, as a struct of literals: no Python, no keys."""
    objects = [
        sql.struct(*(sql.lit(ROW[column]).alias(column) for column in lookup.columns.names)).alias(object_name(index))
        for index, lookup in enumerate(order.lookups)
    ]
    return sql.struct(*objects, *_forwarded())


def _empty(order: Order, usable: Column, keys: Sequence[Column], *_: object) -> Column:
    """An operator like ours that does nothing: the keys go to Python, and the same row comes back for each."""

    def answer(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        fields = list(order.answer_type)
        row = {column: ROW[column] for column in order.lookups[0].columns.names}
        for columns in batches:
            count = len(columns[0])
            objects = [pa.repeat(pa.scalar(row, lookup.kind), count) for lookup in order.lookups]
            yield pa.StructArray.from_arrays([*objects, *_nothing_more(count)], fields=fields)

    return _operator(order, answer, usable, keys)


def _redis_mget(url: str) -> Answer:
    """One MGET a batch of events, through hiredis; the rows decoded all at once."""

    def answer_column(order: Order, usable: Column, keys: Sequence[Column], *_: object) -> Column:
        def answer(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
            client = _client(url)
            (lookup,) = order.lookups
            decoder = JsonDecoder(lookup.columns.arrow)
            fields = list(order.answer_type)
            for _, asked in batches:
                rows = pa.array(client.mget(asked.to_pylist()), pa.binary())
                values = decoder.decode(rows).rows.cast(lookup.kind)
                yield pa.StructArray.from_arrays([values, *_nothing_more(len(rows))], fields=fields)

        return _operator(order, answer, usable, keys)

    return answer_column


def _redis_get(url: str) -> Answer:
    """One GET an event in a Python UDF."""

    def answer_column(order: Order, usable: Column, keys: Sequence[Column], *_: object) -> Column:  # noqa: ARG001
        (lookup,) = order.lookups
        names = lookup.columns.names

        def get(key: str) -> Any:
            found = _client(url).get(key)
            row = None if found is None else json.loads(found)
            return None if row is None else tuple(row[name] for name in names)

        kind = from_arrow_type(lookup.kind)
        found = udf(get, kind, useArrow=False).asNondeterministic()(*keys)
        return sql.struct(found.alias(object_name(0)), *_forwarded())

    return answer_column


def _broadcast(file: str) -> Callable[..., DataFrame]:
    """Spark's stream-static join with the rows of a Parquet file, broadcast."""

    def answered(self: Joining, frame: DataFrame, kept: Sequence[str], usable: Column, *_: object) -> DataFrame:  # noqa: ARG001
        (lookup,), (key,) = self.order.lookups, self.keys
        rows = frame.sparkSession.read.parquet(file)
        row = sql.struct(*lookup.columns.names).alias("_row")
        table = sql.broadcast(rows.select(sql.col("key").alias("_table_key"), row))
        joined = frame.select(*kept, key.alias("_asked")).join(
            table, sql.col("_asked") == sql.col("_table_key"), "left"
        )
        answer = sql.struct(sql.col("_row").alias(object_name(0)), *_forwarded())
        return joined.select(*kept, answer.alias(ANSWER))

    return answered


def _operator(order: Order, answer: Callable[..., Any], *columns: Any) -> Column:
    usable, keys = columns
    answering = arrow_udf(answer, from_arrow_type(order.answer_type)).asNondeterministic()
    column: Column = answering(usable, *keys)
    return column


def _forwarded() -> list[Column]:
    return [*(sql.lit(0).cast("tinyint").alias(name) for name in _FATES), sql.lit(None).cast("string").alias(TOLD)]


def _nothing_more(count: int) -> list[pa.Array]:
    """The same, in a worker: the event goes on, and nothing is told."""
    return [*[pa.array(np.zeros(count, np.int8))] * len(_FATES), pa.nulls(count, pa.string())]


_CLIENTS: dict[str, Any] = {}


def _client(url: str) -> Any:
    """Of this worker, connected once."""
    import redis

    own = f"{os.getpid()} {url}"
    if own not in _CLIENTS:
        _CLIENTS[own] = redis.Redis.from_url(url)
    return _CLIENTS[own]
