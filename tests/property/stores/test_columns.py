"""A batch that is folded in columns becomes what it becomes record by record: the same rows, and the same state."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stores.rocks.database import Database, Sizes
from stores.rocks.state import TableState
from stores.rocks.write.columns import Columns
from stores.rocks.write.fold import Folding
from stores.table import RowVersion, row_versions
from tests.contract.stores.store_under_test import table
from tests.support.stores.directories import fast_directory

KEYS = [b"a", b"b", b"c\0d", b"c", b"", b"d", b"e", b"f"]
NOW = 1_000


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with fast_directory() as directory:
        database = Database.primary(directory / "database", Sizes(), create=True)
        yield database
        database.close()


@st.composite
def batches(draw: st.DrawFn) -> list[list[RowVersion]]:
    """As they come from a topic: offsets of a partition rise. A time may go back, and a key be in two partitions."""
    offsets = {0: 0, 1: 0}
    result = []
    for _ in range(draw(st.integers(1, 4))):
        batch = []
        for _ in range(draw(st.integers(0, 8))):
            partition = draw(st.sampled_from([0, 0, 0, 1]))
            offsets[partition] += draw(st.integers(1, 3))
            time = draw(st.integers(-5, 5)) + 2 * offsets[partition]
            value = draw(st.sampled_from([None, b"", b"some", b"another"]))
            batch.append(RowVersion(draw(st.sampled_from(KEYS)), partition, offsets[partition], time, value))
        result.append(sorted(batch, key=lambda version: (version.partition, version.offset)))
    return result


def one_by_one(database: Database, state: TableState, history_ms: int, batch: list[RowVersion]):
    puts: dict[bytes, bytes] = {}
    deletes: list[bytes] = []
    state = Folding(database, state, table(history_ms), NOW, puts, deletes).fold(row_versions(batch))
    return state, (puts, sorted(deletes)), len(batch)


def in_columns(database: Database, state: TableState, history_ms: int, batch: list[RowVersion]):
    puts: dict[bytes, bytes] = {}
    deletes: list[bytes] = []
    spec = table(history_ms)
    state, left, rows = Columns(database, state, spec, NOW, puts, deletes).fold(row_versions(batch))
    if len(left):
        state = Folding(database, state, spec, NOW, puts, deletes).fold(left, rows)
    return state, (puts, sorted(deletes)), len(left)


def test_columns_become_what_records_become(database: Database) -> None:
    given_and_left = []

    @settings(max_examples=300)
    @given(batches=batches(), history_ms=st.sampled_from([0, 60_000]))
    def check(batches: list[list[RowVersion]], history_ms: int) -> None:
        state = TableState("users", 1)
        database.write({}, [key for key, _ in database.scan(b"", b"\xff")])
        for batch in batches:
            expected, written, _ = one_by_one(database, state, history_ms, batch)
            state, (puts, deletes), left = in_columns(database, state, history_ms, batch)
            assert (state, (puts, deletes)) == (expected, written)
            given_and_left.append((len(batch), left))
            database.write(puts, deletes)

    check()
    count, left = map(sum, zip(*given_and_left, strict=True))
    assert 0 < left < count, "not both ways were taken"
