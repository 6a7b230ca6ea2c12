"""Comparing a table with its topic finds every row that was altered behind everybody's back, and nothing else."""

import json
from contextlib import closing

import pyarrow as pa
import pytest

from enrich.admin.verify.comparing import Comparison, Kind
from enrich.admin.verify.verifying import scratch_directory
from enrich.codecs import JsonDecoder
from enrich.host.claims.notes import TOPIC_ID
from enrich.kafka.records import row_versions_of
from stores.clock import SystemClock
from stores.protocol import KeyKind, TableSpec, TableUpdate
from stores.rocks import RocksReader, RocksStore
from stores.rocks.layout import TOMBSTONE, Entry
from stores.table import row_versions
from tests.support.clock import ManualClock
from tests.support.host.altered_rows import alter, entries_of
from tests.support.seed import random_source, rounds

COLUMNS = pa.schema([pa.field("plan", pa.string())])


class Table:
    """A store that was loaded from the topic, and that may be altered secretly."""

    def __init__(self, cluster, topic, path, key=KeyKind.EXACT):
        self.cluster, self.topic, self.path = cluster, topic, path
        self.spec = TableSpec(COLUMNS, JsonDecoder(COLUMNS), key=key)
        store = RocksStore(path / "rows", {"users": self.spec}, SystemClock())
        load = store.bulk("users")
        load.add(row_versions_of(cluster.messages(topic)))
        load.finish(cluster.topics.end_offsets(topic), notes={TOPIC_ID: cluster.topics.topic_id(topic)})
        store.close()

    def entries(self):
        return entries_of(self.path / "rows", "users")

    def alter(self, changes, *, secretly=True):
        alter(self.path / "rows", "users", changes, secretly=secretly)

    def compare(self, report=lambda _what, _count: None):
        """What is found, and how much was compared."""
        reader = RocksReader(self.path / "rows", {"users": self.spec})
        try:
            whole = reader.snapshot().table("users").whole()
            with scratch_directory(self.path) as scratch:
                comparison = Comparison(
                    whole,
                    self.spec.decoder,
                    self.topic,
                    self.cluster.connection,
                    scratch / "rows",
                    SystemClock(),
                    report,
                )
                found = {(one.kind, one.key) for one in comparison.differences()}
            return found, comparison.compared
        finally:
            reader.close()


@pytest.fixture
def table(cluster, new_topic, tmp_path):
    topic = new_topic(partitions=3, cleanup_policy="compact")
    records = [(b"key-%d" % n, json.dumps({"plan": f"p{n}"}).encode()) for n in range(500)]
    tombstones = [(b"key-%d" % n, None) for n in range(0, 500, 7)]
    cluster.produce(topic, [*records, *tombstones, (b"", b"{}"), (b"\xff\xfe", b"{}")])
    return Table(cluster, topic, tmp_path)


def altered(entry: Entry, how: str) -> list[Entry]:
    match how:
        case "older":
            return [entry._replace(offset=entry.offset - 1)]
        case "newer":
            return [entry._replace(offset=entry.offset + 1)]
        case "bytes":
            return [entry._replace(payload=entry.payload + b" ")]
        case "deleted":
            return [entry._replace(flags=entry.flags ^ TOMBSTONE)]
        case "time":
            return [entry._replace(timestamp=entry.timestamp + 1)]
        case "misplaced":
            return [entry._replace(partition=(entry.partition + 1) % 3)]
        case "twice":
            return [entry, entry._replace(partition=(entry.partition + 1) % 3)]
    return []


KINDS = {
    "missing": Kind.MISSING,
    "older": Kind.OLDER,
    "newer": Kind.NEWER,
    "bytes": Kind.DIFFERENT,
    "deleted": Kind.DIFFERENT,
    "time": Kind.DIFFERENT,
    "misplaced": Kind.MISPLACED,
    "twice": Kind.EXTRA,
}


def test_an_untouched_table_has_no_difference(table):
    found, compared = table.compare()
    assert found == set()
    assert compared.keys == 502


def test_all_of_20_secretly_altered_rows_are_found_and_named_and_no_other(table):
    for number in range(rounds(1, 20)):
        random = random_source(f"altered/{number}")
        before = table.entries()
        keys = random.sample([key for key, (entry, *_) in before.items() if 0 < entry.offset < 150], 18)
        changes, expected = {}, set()
        for index, key in enumerate(keys):
            how = list(KINDS)[index % len(KINDS)]
            changes[key] = altered(before[key][0], how)
            expected.add((KINDS[how], key))
        for key in (b"extra", b"key-10\0"):
            changes[key] = [Entry(5, 1, 3, 5, 0, b"{}")]
            expected.add((Kind.EXTRA, key))
        table.alter(changes)
        found, compared = table.compare()
        assert found == expected
        assert compared.differences == 20
        table.alter({key: before.get(key, []) for key in changes})
        assert table.compare()[0] == set()


def test_rows_that_are_lost_without_a_word_make_the_digest_wrong_as_well(table):
    table.alter({b"key-5": []}, secretly=False)
    found, _ = table.compare()
    assert found == {(Kind.DIGEST, None), (Kind.MISSING, b"key-5")}


def test_what_changed_after_the_view_was_taken_is_counted_and_no_difference(cluster, table):
    cluster.produce(table.topic, [(b"key-1", b'{"plan": "later"}'), (b"key-2", None), (b"new", b"{}")])
    found, compared = table.compare()
    assert found == set()
    assert compared.changed_meanwhile == 3


def test_a_record_that_cannot_become_a_row_is_no_difference_whatever_was_before_it(cluster, new_topic, tmp_path):
    topic = new_topic(cleanup_policy="compact")
    cluster.produce(topic, [(b"a", b"{}"), (b"a", b"no json"), (b"b", b"no json"), (b"c", b"{}")])
    table = Table(cluster, topic, tmp_path)
    assert table.entries().keys() == {b"a", b"c"}
    found, compared = table.compare()
    assert found == set()
    assert compared.undecodable == 2


def test_a_deleted_key_that_the_topic_has_forgotten_is_no_difference(table):
    table.alter({b"gone": [Entry(5, 1, 3, 5, TOMBSTONE, b"")]})
    found, compared = table.compare()
    assert found == set()
    assert compared.forgotten_tombstones == 1


def test_a_deleted_key_that_the_table_has_forgotten_is_no_difference_and_one_that_it_must_know_is(cluster, table):
    of_tomorrow = ManualClock(SystemClock().now_ms() + 2 * 86_400_000)
    with closing(RocksStore(table.path / "rows", {"users": table.spec}, of_tomorrow)) as store:
        assert store.remove_expired().removed == 72
    found, compared = table.compare()
    assert found == set()
    assert compared.forgotten_tombstones == 72
    cluster.produce(table.topic, [(b"key-1", None)])
    with closing(RocksStore(table.path / "rows", {"users": table.spec}, SystemClock())) as store:
        ends = cluster.topics.end_offsets(table.topic)
        store.publish({"users": TableUpdate(row_versions([]), ends)})  # as if the record had been lost on the way
    table.alter({b"key-1": []})
    found, _ = table.compare()
    assert found == {(Kind.MISSING, b"key-1")}


def test_a_table_of_another_topic_or_beyond_its_end_is_told(cluster, table):
    cluster.make_again(table.topic, partitions=3)
    found, _ = table.compare()
    assert found == {(Kind.TOPIC, None)}


def test_a_topic_that_is_recreated_while_it_is_read_makes_no_row_different(cluster, table):
    left = [lambda: cluster.make_again(table.topic, partitions=3)]

    def told(what, _count):
        if what == "records read" and left:
            left.pop()()

    found, _ = table.compare(told)
    assert found == {(Kind.TOPIC, None)}


def test_networks_are_compared_by_what_they_mean(cluster, new_topic, tmp_path):
    topic = new_topic(cleanup_policy="compact")
    cluster.produce(topic, [(b"10.0.0.1/8", b"{}"), (b"10.1.0.0/16", b"{}"), (b"::/0", b"{}"), (b"no network", b"{}")])
    table = Table(cluster, topic, tmp_path, KeyKind.CIDR)
    assert table.compare()[0] == set()
    key, (entry,) = next((key, entries) for key, entries in table.entries().items() if entries[0].offset == 0)
    table.alter({key: [entry._replace(payload=b'{"plan":"x"}')]})
    assert table.compare()[0] == {(Kind.DIFFERENT, b"10.0.0.0/8")}
