"""What stands in for a stage's look-ups, everything else being the same: the ceiling, and peers that ask elsewhere.

The ceiling and MGET replace whoever answers in the worker. One GET an event and the broadcast join are operators of
their own, for which Spark reads and writes JSON, as it does for our own stages that have expressions to evaluate.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.functions import udf
from pyspark.sql.pandas.types import from_arrow_type

from enrich.codecs import JsonDecoder
from enrich.stage.plan.joining import ANSWER, Joining
from enrich.stage.task.spec import DECIDED_BY, FATE, REPORT, STATUS, TaskSpec, object_name
from enrich.stage.worker.answers import Questions

OURS, EVALUATED, LITERAL = "ours", "evaluated", "literal"
BROADCAST, REDIS_GET, REDIS_MGET = "broadcast", "redis_get", "redis_mget"
WITH_TABLES = (OURS, EVALUATED)
"""Those that are answered by tables of ours."""

ROW: dict[str, object] = {"plan": "free", "region": "eu-7", "rps": 0}
"""What every event gets where nothing is looked up."""
_FATES = (FATE, DECIDED_BY, STATUS)


@contextmanager
def lookups_by(name: str, where: str = "") -> Iterator[None]:
    """Inside the block stages that are planned get their answers so. `where`: the Redis, or the file to broadcast."""
    with ExitStack() as held:
        if name == LITERAL:
            held.enter_context(patch("enrich.stage.plan.worker_join.task_answers", LiteralAnswers))
        elif name == REDIS_MGET:
            held.enter_context(patch("enrich.stage.plan.worker_join.task_answers", partial(RedisAnswers, where)))
        elif name != OURS:
            held.enter_context(patch("enrich.stage.plan.plan.worker_join", lambda *_: None))
        if name == REDIS_GET:
            held.enter_context(patch("enrich.stage.plan.joining.answer_column", _redis_get(where)))
        elif name == BROADCAST:
            held.enter_context(patch.object(Joining, "answered", _broadcast(where)))
        yield


class LiteralAnswers:
    """The same row for every event: nothing is looked up."""

    def __init__(self, spec: TaskSpec, *_: object) -> None:
        self._spec = spec

    def answer(self, questions: Questions) -> pa.StructArray:
        count = len(questions.usable)
        row = {column: ROW[column] for column in self._spec.lookups[0].columns.names}
        objects = [pa.repeat(pa.scalar(row, lookup.kind), count) for lookup in self._spec.lookups]
        return _forwarded_all(self._spec, objects)


class RedisAnswers:
    """One MGET a batch of events, through hiredis; the rows decoded all at once."""

    def __init__(self, url: str, spec: TaskSpec, *_: object) -> None:
        self._client = _client(url)
        self._spec = spec
        (self._lookup,) = spec.lookups
        self._decoder = JsonDecoder(self._lookup.columns.arrow)

    def answer(self, questions: Questions) -> pa.StructArray:
        (keys,) = questions.keys
        rows = pa.array(self._client.mget(keys.to_pylist()), pa.binary())
        return _forwarded_all(self._spec, [self._decoder.decode(rows).rows.cast(self._lookup.kind)])


def _forwarded_all(spec: TaskSpec, objects: Sequence[pa.Array]) -> pa.StructArray:
    count = len(objects[0])
    nothing_more = [*[pa.array(np.zeros(count, np.int8))] * len(_FATES), pa.nulls(count, pa.string())]
    return pa.StructArray.from_arrays([*objects, *nothing_more], fields=list(spec.answer_type))


def _redis_get(url: str) -> Callable[..., Column]:
    """One GET an event in a Python UDF."""

    def answer_column(spec: TaskSpec, usable: Column, keys: Sequence[Column], *_: object) -> Column:  # noqa: ARG001
        (lookup,) = spec.lookups
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
        (lookup,), (key,) = self.spec.lookups, self.keys
        rows = frame.sparkSession.read.parquet(file)
        row = sql.struct(*lookup.columns.names).alias("_row")
        table = sql.broadcast(rows.select(sql.col("key").alias("_table_key"), row))
        joined = frame.select(*kept, key.alias("_asked")).join(
            table, sql.col("_asked") == sql.col("_table_key"), "left"
        )
        answer = sql.struct(sql.col("_row").alias(object_name(0)), *_forwarded())
        return joined.select(*kept, answer.alias(ANSWER))

    return answered


def _forwarded() -> list[Column]:
    return [*(sql.lit(0).cast("tinyint").alias(name) for name in _FATES), sql.lit(None).cast("string").alias(REPORT)]


_CLIENTS: dict[str, Any] = {}


def _client(url: str) -> Any:
    """Of this worker, connected once."""
    import redis

    own = f"{os.getpid()} {url}"
    if own not in _CLIENTS:
        _CLIENTS[own] = redis.Redis.from_url(url)
    return _CLIENTS[own]
