"""The section `sync.writeback`: each route writes a topic's rows to an external store."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, ClassVar

from enrich.config.sections.sync.targets import Target
from enrich.config.types.columns import ColumnList
from enrich.config.types.encoding import Encoded
from enrich.config.types.fields import Text, Topic, fills_in
from enrich.config.types.quantities import Duration, DurationList, duration_text


class SyncWriteback(Encoded):
    """A route from a topic to an external store."""

    derived: ClassVar = {"columns": "topic", "dlq": "topic"}

    topic: Topic
    """The topic whose rows are written."""
    columns: ColumnList
    """The columns of a row. Default: those of the table that mirrors the topic; else required."""
    version: Text | None = None
    """The column that orders the versions of a key: a whole number, a date or a timestamp. Default: the header
    `enrich.version`, else the offset."""
    to: Target
    """The store that the rows are written to: exactly one of `redis` and `postgres`."""
    retries: DurationList = (timedelta(seconds=30), timedelta(minutes=5))
    """Pauses after which a row that the store refused for now is tried again. Each has a topic."""
    dlq: Topic
    """The topic for records that cannot be written; created if it does not exist. Default:
    `<pipeline>.<route>.dlq`."""
    dlq_retention: Duration = timedelta(days=7)
    """How long dead letters may be replayed: tombstones in the store are kept that long."""
    rewind: Duration = timedelta(minutes=10)
    """How far the route goes back when the store was restarted or replaced, as it may have lost writes."""
    reconcile: Duration = timedelta(days=1)
    """How often topic and store are compared; 0: only on demand."""


def retry_topics(pipeline: str, route: str, retries: Iterable[timedelta]) -> list[tuple[str, timedelta]]:
    """For each pause, the shortest first, its topic. Equal pauses have topics of their own: what one tier sends on must
    not come back to it."""
    topics: list[tuple[str, timedelta]] = []
    for index, pause in enumerate(ordered := sorted(retries)):
        again = index - ordered.index(pause)
        name = f"{retry_prefix(pipeline, route)}{duration_text(pause)}"
        topics.append((f"{name}.{again + 1}" if again else name, pause))
    return topics


def retry_prefix(pipeline: str, route: str) -> str:
    """What the names of a route's retry topics begin with."""
    return f"{pipeline}.{route}.retry."


def filled_writeback(pipeline: Mapping[str, Any], name: str, route: object) -> object:
    """The route with the defaults that follow from its table and the pipeline's name."""

    def derive(data: Mapping[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {"dlq": f"{pipeline.get('name')}.{name}.dlq"}
        if data.get("format") in ("bytes", "string"):
            values["columns"] = "value binary" if data["format"] == "bytes" else "value string"
        tables = pipeline.get("tables")
        for table in tables.values() if isinstance(tables, Mapping) else ():
            if (
                isinstance(table, Mapping)
                and table.get("topic") == data.get("topic")
                and table.get("columns") is not None
            ):
                values["columns"] = table["columns"]
        return values

    return fills_in(route, derive)
