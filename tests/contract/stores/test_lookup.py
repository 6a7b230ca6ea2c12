"""What every engine promises about the latest version of a key."""

import pyarrow as pa
import pytest

from stores.errors import ConfigError
from stores.table import RowVersion, Status
from tests.contract.stores.store_under_test import Answer, answers, find, table, version

FREE, PRO = {"plan": "free"}, {"plan": "pro"}


def hit(plan, offset, partition=0):
    return Answer(Status.HIT, {"plan": plan}, (partition, offset))


MISS = Answer(Status.MISS, None, None)


def test_an_empty_table_answers_miss(open_store):
    assert open_store(users=table()).find("users", "a") == [MISS]


def test_the_greatest_offset_of_a_partition_answers_whatever_its_timestamp(open_store):
    store = open_store(users=table())
    store.publish("users", version("a", 0, FREE, timestamp=9_000), version("a", 1, PRO, timestamp=1_000))
    assert store.find("users", "a") == [hit("pro", 1)]


def test_answers_stand_in_the_order_of_the_keys_with_repeats(open_store):
    store = open_store(users=table())
    store.publish("users", version("a", 0, FREE), version("b", 1, PRO))
    assert store.find("users", "b", "x", "a", "b", None) == [
        hit("pro", 1), MISS, hit("free", 0), hit("pro", 1), Answer(Status.NULL_KEY, None, None),
    ]  # fmt: skip


def test_a_tombstone_answers_deleted_with_its_position_until_the_key_returns(open_store):
    store = open_store(users=table())
    store.publish("users", version("a", 0, FREE), version("a", 1, None))
    assert store.find("users", "a") == [Answer(Status.DELETED, None, (0, 1))]
    store.publish("users", version("a", 2, PRO))
    assert store.find("users", "a") == [hit("pro", 2)]


def test_a_key_in_two_partitions_is_resolved_by_time_then_partition_then_offset(open_store):
    store = open_store(users=table())
    store.publish(
        "users",
        version("a", 5, FREE, partition=0, timestamp=50),
        version("a", 1, PRO, partition=1, timestamp=60),
    )
    store.publish(
        "users",
        version("b", 6, FREE, partition=0, timestamp=70),
        version("b", 2, PRO, partition=1, timestamp=70),
    )
    assert store.find("users", "a", "b") == [hit("pro", 1, partition=1), hit("pro", 2, partition=1)]


def test_only_the_newest_of_each_partition_competes_across_partitions(open_store):
    store = open_store(users=table())
    store.publish(
        "users",
        version("a", 0, {"plan": "old"}, partition=0, timestamp=90),
        version("a", 1, FREE, partition=0, timestamp=10),
        version("a", 0, PRO, partition=1, timestamp=50),
    )
    assert store.find("users", "a") == [hit("pro", 0, partition=1)]


def test_row_versions_below_the_position_are_ignored_when_they_come_again(open_store):
    store = open_store(users=table())
    store.publish("users", version("a", 0, FREE), version("a", 1, PRO))
    store.publish("users", version("a", 0, FREE))
    assert store.find("users", "a") == [hit("pro", 1)]


def test_the_chosen_columns_come_in_the_chosen_order_with_nested_values(open_store):
    store = open_store(users=table())
    store.publish("users", version("a", 0, {"rps": 7, "limits": {"burst": 9, "tags": ["x", None]}}))
    (answer,) = store.find("users", "a", columns=("limits", "rps", "plan"))
    assert answer.values == {"limits": {"burst": 9, "tags": ["x", None]}, "rps": 7, "plan": None}
    assert list(answer.values) == ["limits", "rps", "plan"]


def test_no_columns_ask_for_the_status_alone(open_store):
    store = open_store(users=table())
    store.publish("users", version("a", 0, FREE))
    assert [a.status for a in store.find("users", "a", "b", columns=())] == [Status.HIT, Status.MISS]


def test_an_empty_batch_of_keys_gives_an_empty_answer(open_store):
    store = open_store(users=table())
    found = store.reader.snapshot().table("users").lookup(pa.array([], pa.string()), ["plan"])
    assert answers(found) == []
    assert found.values.type == pa.struct([pa.field("plan", pa.string())])


def test_the_answer_has_the_same_types_for_every_kind_of_look_up(open_store):
    store = open_store(users=table(history_ms=60_000))
    store.publish("users", version("a", 0, FREE))
    view = store.reader.snapshot().table("users")
    keys = pa.array(["a", "b"])
    for options in ({}, {"as_of": pa.array([5, 5], pa.timestamp("us"))}, {"pin": {0: 1}}):
        found = view.lookup(keys, ["plan"], **options)
        types = [x.type for x in (found.status, found.partition, found.offset, found.timestamp)]
        assert types == [pa.int8(), pa.int32(), pa.int64(), pa.timestamp("ms", tz="UTC")]


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["7"]),
        pa.array(["7"], pa.large_string()),
        pa.array([b"7"]),
        pa.array([b"7"], pa.large_binary()),
        pa.array([7]),
        pa.array([7], pa.uint8()),
        pa.array(["7"]).dictionary_encode(),
        pa.array(["skipped", "7"]).slice(1),
    ],
    ids=lambda keys: str(keys.type),
)
def test_keys_of_any_type_find_their_text(open_store, keys):
    store = open_store(users=table())
    store.publish("users", version("7", 0, FREE))
    assert answers(store.reader.snapshot().table("users").lookup(keys, ["plan"])) == [hit("free", 0)]


def test_keys_that_share_all_but_their_dictionary_are_other_keys(open_store):
    store = open_store(users=table())
    store.publish("users", version("a", 0, FREE), version("b", 1, PRO))
    indices = pa.array([0, 0], pa.int32())
    for key, expected in (("a", hit("free", 0)), ("b", hit("pro", 1))):
        keys = pa.DictionaryArray.from_arrays(indices, pa.array([key]))
        assert find(store.reader.snapshot().table("users"), keys) == [expected, expected]


def test_a_composite_key_is_a_compact_json_array_and_a_null_part_makes_it_null(open_store):
    store = open_store(users=table())
    store.publish("users", version('["eu","ü\\"",7]', 0, FREE))
    parts = [{"r": "eu", "n": 'ü"', "i": 7}, {"r": "eu", "n": None, "i": 7}, None]
    keys = pa.array(parts, pa.struct([("r", pa.string()), ("n", pa.string()), ("i", pa.int64())]))
    found = answers(store.reader.snapshot().table("users").lookup(keys, ["plan"]))
    assert found == [hit("free", 0), Answer(Status.NULL_KEY, None, None), Answer(Status.NULL_KEY, None, None)]


@pytest.mark.parametrize("key", [b"", b"\x00\xff\xfe", b"k" * 70_000, "ключ 🔑".encode()])
def test_any_bytes_are_a_key(open_store, key):
    store = open_store(users=table())
    store.publish("users", version(key, 0, FREE), version(b"other", 1, PRO))
    assert store.find("users", key) == [hit("free", 0)]


def test_a_column_of_a_type_that_is_no_key_is_refused(open_store):
    view = open_store(users=table()).reader.snapshot().table("users")
    with pytest.raises(ConfigError, match="double cannot be a key"):
        view.lookup(pa.array([1.5]), ["plan"])


def test_an_unknown_table_or_column_is_refused_by_name(open_store):
    store = open_store(users=table())
    with pytest.raises(ConfigError, match="no table `nope`"):
        store.reader.snapshot().table("nope")
    with pytest.raises(ConfigError, match="no column `nope`"):
        store.find("users", "a", columns=("nope",))


def test_an_undecodable_record_is_quarantined_and_the_version_before_it_goes_on_answering(open_store):
    store = open_store(users=table())
    store.publish("users", version("a", 0, FREE))
    bad = RowVersion(b"a", 0, 1, 1_000, b'{"plan": 5}')
    published = store.publish("users", bad, version("b", 2, PRO))
    (record,) = published.quarantined
    assert (record.table, record.partition, record.offset, record.key, record.value) == (
        "users",
        0,
        1,
        b"a",
        bad.value,
    )
    assert record.reason == "plan: expected text, got a whole number"
    assert store.find("users", "a", "b") == [hit("free", 0), hit("pro", 2)]
