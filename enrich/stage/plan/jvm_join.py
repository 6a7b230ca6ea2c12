"""The one Python operator of users' own jobs: key columns in, answers out. All other columns stay in the JVM."""

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined] # missing in its stubs
from pyspark.sql.pandas.types import from_arrow_type

from enrich.stage.steps.looking_up import answers_of_task
from enrich.stage.task.spec import TaskSpec
from enrich.stage.worker.answers import Questions


def answer_column(spec: TaskSpec, usable: Column, keys: Sequence[Column], times: Column | None) -> Column:
    """A column of `spec.answer_type`. `usable`: false if an event could not be parsed, never null.

    The UDF must be marked nondeterministic, which it is: otherwise Spark pushes down a filter on one of its fields and
    evaluates the UDF once more, at another seq.
    """
    arguments = [usable, *keys] if times is None else [usable, *keys, times]
    udf = arrow_udf(_answering(spec, len(keys)), from_arrow_type(spec.answer_type)).asNondeterministic()
    return cast(Column, udf(*arguments))


def _answering(spec: TaskSpec, keys: int) -> Callable[[Iterator[tuple[pa.Array, ...]]], Iterator[pa.Array]]:
    def answer(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        answers = answers_of_task(spec, None)
        return (answers.answer(_questions(columns, keys)) for columns in batches)

    return answer


def _questions(columns: tuple[pa.Array, ...], keys: int) -> Questions:
    usable = np.asarray(columns[0].to_numpy(zero_copy_only=False), np.bool_)
    times = columns[1 + keys] if len(columns) > 1 + keys else None
    return Questions(usable, columns[1 : 1 + keys], times)
