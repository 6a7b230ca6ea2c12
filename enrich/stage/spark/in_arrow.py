"""Python functions over the batches of a DataFrame, in columns."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import _create_udf
from pyspark.util import PythonEvalType

Batches = Iterator[pa.RecordBatch]
Function = Callable[[Batches], Batches]


def mapped(frame: DataFrame, function: Function, schema: str, *, barrier: bool = False) -> DataFrame:
    """`frame.mapInArrow(function, schema, barrier)` without its needless import of pandas."""
    udf: Any = _create_udf(function, StructType.fromDDL(schema), PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = udf(*(frame[name] for name in frame.columns))
    return ClassicFrame(frame._jdf.mapInArrow(column._jc, barrier, None), frame.sparkSession)
