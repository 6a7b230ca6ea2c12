"""What stands in for a stage's look-ups, everything else being the same: the ceiling, and peers that ask elsewhere.

The ceiling and MGET replace whoever answers in the worker. One GET an event and the broadcast join stand between two
operators that read and write, as Spark's part does in our own stages that have expressions to evaluate.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
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
from enrich.stage.compute import NotCompiled
from enrich.stage.plan.expressions import Expressions
from enrich.stage.plan.operators import BySpark, Part
from enrich.stage.steps.looking_up import LookUp
from enrich.stage.task.spec import DECIDED_BY, FATE, REPORT, STATUS, TaskSpec
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
    ways: dict[str, Callable[..., Part]] = {
        LITERAL: partial(LookUp, answers=LiteralAnswers),
        REDIS_MGET: partial(LookUp, answers=partial(RedisAnswers, where)),
        REDIS_GET: partial(_redis_get, where),
        BROADCAST: partial(_broadcast, where),
    }
    with ExitStack() as held:
        if name in ways:
            held.enter_context(patch("enrich.stage.plan.parts.LookUp", ways[name]))
        elif name == EVALUATED:  # no key is a plain field, nor known to workers
            held.enter_context(patch.object(Expressions, "names", ()))
            held.enter_context(patch.object(Expressions, "compiled", lambda _, text: NotCompiled(text, "as measured")))
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


def _redis_get(url: str, spec: TaskSpec, keys: Sequence[Sequence[str]], *_: object) -> BySpark:
    """One GET an event in a Python UDF."""
    (lookup,), ((key,),) = spec.lookups, keys
    names = lookup.columns.names

    def get(key: str) -> Any:
        found = _client(url).get(key)
        row = None if found is None else json.loads(found)
        return None if row is None else tuple(row[name] for name in names)

    found = udf(get, from_arrow_type(lookup.kind), useArrow=False).asNondeterministic()(key)
    return BySpark({lookup.name: found, **_forwarded()}, [key])


@dataclass(frozen=True)
class _Joined(BySpark):
    """Spark's stream-static join with the rows of a Parquet file, broadcast."""

    file: str
    key: str
    names: Sequence[str]

    def added(self, frame: DataFrame, needed: Collection[str]) -> DataFrame:
        rows = frame.sparkSession.read.parquet(self.file)
        table = sql.broadcast(rows.select(sql.col("key").alias("_table_key"), sql.struct(*self.names).alias("_row")))
        joined = frame.join(table, sql.col(self.key) == sql.col("_table_key"), "left")
        return super().added(joined, needed)


def _broadcast(file: str, spec: TaskSpec, keys: Sequence[Sequence[str]], *_: object) -> BySpark:
    (lookup,), ((key,),) = spec.lookups, keys
    return _Joined({lookup.name: sql.col("_row"), **_forwarded()}, [key], file, key, lookup.columns.names)


def _forwarded() -> dict[str, Column]:
    return {
        **{f"_{name}": sql.lit(0).cast("tinyint") for name in _FATES},
        f"_{REPORT}": sql.lit(None).cast("string"),
    }


_CLIENTS: dict[str, Any] = {}


def _client(url: str) -> Any:
    """Of this worker, connected once."""
    import redis

    own = f"{os.getpid()} {url}"
    if own not in _CLIENTS:
        _CLIENTS[own] = redis.Redis.from_url(url)
    return _CLIENTS[own]
