"""After each refresh the table is what the source has, and what did not change kept its version, by either way in."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from enrich.codecs import JsonDecoder
from enrich.host.loaders.refreshing import Refresher
from stores.protocol import TableSpec
from stores.rocks import RocksReader, RocksStore
from stores.table import RowVersion
from tests.support.clock import ManualClock
from tests.support.host.listed_source import ListedSource
from tests.support.seed import rounds
from tests.support.stores.directories import fast_directory

COLUMNS = pa.schema([("n", pa.int32())])
SPEC = TableSpec(COLUMNS, JsonDecoder(COLUMNS))
BAD = {b"bad": "cannot be decoded", b'{"n": "5"}': "neither"}

keys = st.sampled_from([b"", b"a", b"b", b"c", b"\xff"])
values = st.sampled_from([b'{"n": 1}', b'{"n": 2}', b'{"n": 3}', *BAD])
contents = st.dictionaries(keys, values)
lives = st.lists(st.lists(contents, min_size=1, max_size=5), min_size=1, max_size=3)
"""What the source has at each refresh of each life of the agent."""


@settings(max_examples=rounds(30, 2_000))
@given(lives, st.sampled_from([0, 1, 5_000]))
def test_a_table_is_its_source_after_each_refresh_and_restart(lives, most_in_one_write):
    clock = ManualClock()
    expected: dict[bytes, bytes] = {}
    refused: set[tuple[bytes, bytes]] = set()
    before: Mapping[bytes, RowVersion] = {}
    with fast_directory() as directory:
        for life in lives:
            with closing(RocksStore(directory / "rows", {"t": SPEC}, clock)) as store:
                source = ListedSource()
                refresher = Refresher(
                    "t", SPEC, source, store, clock, lambda _: None, most_in_one_write=most_in_one_write
                )
                for content in life:
                    clock.advance(1_000)
                    position = store.tables["t"].positions.get(0, 0)
                    refreshed = believed(refresher, source, content)
                    if refreshed.update is not None:
                        store.publish({"t": refreshed.update})
                    expected = {
                        key: expected.get(key, b"") if value in BAD else value
                        for key, value in content.items()
                        if value not in BAD or key in expected
                    }
                    after = versions(directory / "rows")
                    assert {key: row.value for key, row in after.items() if row.value is not None} == expected
                    for key, row in after.items():
                        is_same = key in before and row.value == before[key].value
                        assert row == before[key] if is_same else row.offset >= position
                    newly_refused = {pair for pair in content.items() if pair[1] in BAD} - refused
                    refused |= newly_refused
                    assert store.tables["t"].quarantine.records == len(refused)
                    changed = sum(row.offset >= position for row in after.values())
                    assert store.tables["t"].positions.get(0, 0) == position + changed + len(newly_refused)
                    before = after


def believed(refresher: Refresher, source: ListedSource, content: Mapping[bytes, bytes]):
    """However much it shrinks: read until the guard believes it."""
    source.contents = (list(content.items())[:2], list(content.items())[2:])
    for _ in range(3):
        refreshed = refresher.refresh(lambda _: None, lambda: False)
        if refreshed.complete_through is not None:
            return refreshed
    raise AssertionError("three reads in a row are not believed")


def versions(store: Path) -> dict[bytes, RowVersion]:
    with closing(RocksReader(store, {"t": SPEC})) as reader:
        return {version.key: version for version in reader.snapshot().table("t").scan()}
