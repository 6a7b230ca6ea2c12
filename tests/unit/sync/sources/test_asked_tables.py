"""When a table that is asked for changes is read whole, or for its keys: by the clock of a server that may be another
one the next time."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stores.external.postgres.reading import Moment, TableShape
from stores.external.postgres.types import Column
from sync_service.sources.polled.postgres import PostgresSource, TableQuery
from sync_service.sources.polled.source import Extent, Progress

NOW, DAY = 1_800_000_000_000, 86_400_000
COLUMNS = (Column("id", 20, -1, "N"), Column("at", 1184, -1, "D"))


class Server:
    """It has a table without rows."""

    def __init__(self) -> None:
        self.now_ms = NOW

    @contextmanager
    def snapshot(self, locked: str | None = None) -> Iterator[Any]:  # noqa: ARG002 - as the real one has it
        yield SimpleNamespace(
            moment=Moment(self.now_ms, self.now_ms, all_seen=True),
            taken_ms=self.now_ms,
            writes=None,
            shape=lambda table: TableShape(1, table, COLUMNS, (frozenset({"id"}),), frozenset({"at"})),
            newest=lambda *_, **__: "2027-01-15 00:00:00+00",
            rows=lambda *_, **__: iter(()),
        )


@pytest.mark.parametrize(("whole_every_ms", "expected"), [(DAY, [Extent.whole]), (0, [Extent.changes, Extent.keys])])
def test_what_was_read_in_the_future_of_a_server_is_read_again(whole_every_ms: int, expected: list[Extent]) -> None:
    """As after a failover to one whose clock is behind."""
    server = Server()
    query = TableQuery("t", ("id",), cursor="at", whole_every_ms=whole_every_ms)
    source = PostgresSource(cast(Any, server), query)

    def asked(progress: Progress) -> tuple[list[Extent], Progress]:
        with source.ask(progress, None) as answer:
            assert answer is not None
            return [reading.extent for reading in answer.readings], answer.progress

    _, progress = asked(Progress())
    server.now_ms += 1
    extents, progress = asked(progress)
    assert extents == [Extent.changes]
    server.now_ms -= 2 * DAY
    extents, progress = asked(progress)
    assert extents == expected
    server.now_ms += 1
    assert asked(progress)[0] == [Extent.changes]
