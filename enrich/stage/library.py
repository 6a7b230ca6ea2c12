"""The lookups of a stage for users' own Spark jobs, on any streaming or batch DataFrame."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from enrich.base.errors import ConfigError
from enrich.config import Lookup, OnMiss, Pipeline
from enrich.stage.plan.expressions import Expression, Expressions
from enrich.stage.plan.joining import OURS, joining
from enrich.stage.plan.operators import quoted
from enrich.stage.task.fate import Fate


def enrich(
    df: DataFrame,
    pipeline: Pipeline,
    lookups: Sequence[Lookup | Mapping[str, Any]],
    *,
    event_time: str | None = None,
    lineage: bool = False,
    outcome: str | None = None,
) -> DataFrame:
    """The rows of `df` with one more struct column for each lookup. One Python operator does all lookups.

    `lookups`: as under `stages.<name>.lookups` in the configuration. `event_time`: an expression, needed with `as_of`
    and `on_miss: wait`. `outcome`: the name of a struct column with `fate` (`forward` or `dlq`) and, for `dlq`, the
    deciding `lookup` and its `status`. It is needed with `on_miss: dlq`: the caller writes those rows to the DLQ.
    Rows that `on_miss: drop` drops are left out.

    Raises ConfigError for arguments that cannot work. An error in a worker fails Spark's job: see `failure_of`.
    """
    _require_own_columns(df)
    chosen = [_lookup(each, index) for index, each in enumerate(lookups)]
    _require_new_columns(df, [*(lookup.as_ for lookup in chosen), *([outcome] if outcome else [])])
    for index, lookup in enumerate(chosen):
        if lookup.last_resort == OnMiss.dlq and outcome is None:
            raise ConfigError(
                "on_miss: dlq needs a column that says which rows are meant",
                where=f"lookups[{index}]",
                next_step="pass outcome=NAME, and write the rows whose NAME.fate is `dlq` to your DLQ",
            )
        table = pipeline.tables.get(lookup.table)
        waits = lookup.on_miss == OnMiss.wait and not (table is not None and table.on_demand)
        if (lookup.as_of or waits) and event_time is None:
            raise ConfigError(
                "as_of and on_miss: wait need the time of the event",
                where=f"lookups[{index}]",
                next_step="pass event_time=EXPRESSION",
            )
    expressions = Expressions(df.sparkSession, df.schema)
    time = None if event_time is None else expressions.time(Expression(event_time, "event_time"))[1]
    joined = joining(pipeline, chosen, expressions, time, lineage=lineage)
    if not chosen:
        return df
    theirs = [quoted(name) for name in df.columns]
    answered = joined.answered(df, theirs, sql.lit(True))
    columns = [*theirs, *joined.objects()]
    if outcome is not None:
        name, _, status = joined.outcome.deciding()
        is_dead = joined.outcome.fate() == Fate.DLQ
        fate = sql.when(is_dead, "dlq").otherwise("forward")
        parts = [fate.alias("fate"), sql.when(is_dead, name).alias("lookup"), sql.when(is_dead, status).alias("status")]
        columns.append(sql.struct(*parts).alias(outcome))
    return answered.where(joined.outcome.fate() != Fate.DROP).select(*columns)


def _lookup(given: Lookup | Mapping[str, Any], index: int) -> Lookup:
    if isinstance(given, Lookup):
        return given
    try:
        return Lookup.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{key}: {first['msg']}", where=f"lookups[{index}]") from None


def _require_own_columns(df: DataFrame) -> None:
    counted = Counter(name.casefold() for name in df.columns)
    for name in df.columns:
        if counted[name.casefold()] > 1:
            raise ConfigError(
                f"the DataFrame has two columns `{name}`, which Spark cannot tell apart", next_step="rename one of them"
            )
        if name.casefold().startswith(OURS):
            raise ConfigError(
                f"the DataFrame has a column `{name}`, and names that begin with {OURS} are needed here",
                next_step="rename it",
            )


def _require_new_columns(df: DataFrame, names: Sequence[str]) -> None:
    taken = {name.casefold() for name in df.columns}
    for name in names:
        if name.casefold() in taken:
            raise ConfigError(f"there is already a column `{name}`", next_step="choose another name with `as`")
        taken.add(name.casefold())
