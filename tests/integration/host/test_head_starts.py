"""A load that begins with a snapshot ends like one that does not: with what the topic says now."""

from dataclasses import replace

import pytest

from enrich.host.ipc.imports import ImportRequest, Outcome
from enrich.host.load.snapshots import HeadStarts
from stores.snapshots import Snapshot
from stores.table import HistoryFloor, Status
from tests.support.host.agents import AgentLife, plans_table, produce_plans

COMPACTED = {"cleanup_policy": "compact"}


@pytest.fixture
def start(cluster, tmp_path):
    """Starts an agent over a folder of its own; what it is given goes to it."""
    lives = []

    def start_(topic, folder="one", *, history_ms=0, **given):
        life = AgentLife(tmp_path / folder, cluster.connection, plans_table(topic, history_ms=history_ms), **given)
        lives.append(life)
        (tmp_path / folder).mkdir(exist_ok=True)
        return life.start()

    yield start_
    for life in lives:
        life.stop()


@pytest.fixture
def location(tmp_path):
    return tmp_path / "snapshots"


def test_a_cold_host_has_what_came_and_went_after_the_snapshot(cluster, new_topic, start, location, caplog):
    topic = new_topic(partitions=2, **COMPACTED)
    produce_plans(cluster, topic, ann="free", bob="pro", eve="free")
    cluster.produce(topic, [(b"bad", b"no json")])
    first = start(topic)
    first.until_complete()
    snapshot = first.export(location)
    produce_plans(cluster, topic, ann="max", bob=None, zoe="new")
    first.until_complete()
    cold = start(topic, "two", head_starts=HeadStarts(location, "test"))
    state = cold.until_complete()
    assert cold.rows() == first.rows() == {"ann": "max", "eve": "free", "zoe": "new"}
    assert cold.answers("bob") == [(Status.DELETED, None)]
    assert state.quarantined == first.state().quarantined == 1
    assert "a snapshot is not used" not in caplog.text
    assert snapshot.manifest.versions == 4
    cold.verify()


def test_an_import_replaces_the_rows_at_once_and_readers_never_go_back(cluster, new_topic, start, location):
    topic = new_topic(**COMPACTED)
    produce_plans(cluster, topic, **{f"u{n}": "free" for n in range(2_000)}, newest="0")
    life = start(topic)
    life.until_complete()
    snapshot = life.export(location)
    for number in range(1, 4):
        produce_plans(cluster, topic, newest=str(number))
    life.until_complete()
    request = ImportRequest(life.imports, "users", snapshot.path)
    produce_plans(cluster, topic, newest="4", late="yes")
    seen = []

    def imported(_):
        outcome = request.outcome()  # before the rows: then the last ones are those of the import
        seen.append(int(life.rows()["newest"]))
        assert life.state().ready
        return outcome

    life.until(imported, "the import")
    assert seen == sorted(seen)
    assert seen[0] >= 3
    assert seen[-1] == 4
    assert len(life.rows()) == 2_002
    produce_plans(cluster, topic, newest="5")
    life.until_complete()
    assert life.rows()["newest"] == "5"


def test_an_import_that_is_refused_leaves_the_rows_and_the_table_is_followed_on(cluster, new_topic, start, location):
    topic = new_topic(**COMPACTED)
    produce_plans(cluster, topic, ann="free")
    life = start(topic)
    life.until_complete()
    snapshot = life.export(location)
    damaged = snapshot.path / "newest-00000.arrows"
    damaged.write_bytes(damaged.read_bytes()[:-8] + b"\1" * 8)
    assert damaged.name in refused(life, ImportRequest(life.imports, "users", snapshot.path))
    assert "there is no snapshot" in refused(life, ImportRequest(life.imports, "users", location / "nowhere"))
    assert "others" in refused(life, ImportRequest(life.imports, "others", snapshot.path))
    produce_plans(cluster, topic, ann="pro")
    life.until_complete()
    assert life.rows() == {"ann": "pro"}
    assert list(life.imports.iterdir()) == []


def refused(life, request):
    """The reason for which the agent refuses."""
    outcomes: list[Outcome] = []

    def has_ended(_):
        outcome = request.outcome()
        outcomes.extend([] if outcome is None else [outcome])
        return outcomes

    life.until(has_ended, "the outcome")
    return outcomes[0].refused or ""


def test_what_no_command_of_ours_wrote_among_the_requests_stops_nothing(cluster, new_topic, start):
    topic = new_topic(**COMPACTED)
    life = start(topic)
    life.imports.mkdir()
    for name, content in {"a" * 32: b"[]", "b" * 32: b"\xff", "c" * 32: b'{"table":5,"snapshot":{}}'}.items():
        (life.imports / f"{name}.request").write_bytes(content)
    (life.imports / "readme").touch()
    life.until(lambda _: len(list(life.imports.glob("*.outcome"))) == 3, "the outcomes")
    life.until_complete()


def test_history_survives_as_far_as_the_topic_proves_it(cluster, new_topic, start, location):
    hour = 3_600_000
    for lag, versions in ((hour, ["free", "pro", "max"]), (0, ["max"])):
        topic = new_topic(**COMPACTED, min_compaction_lag_ms=str(lag))
        place = location / str(lag)
        life = start(topic, f"one-{lag}", history_ms=hour)
        life.until_complete()
        produce_plans(cluster, topic, ann="free")
        produce_plans(cluster, topic, ann="pro")
        life.until_complete()
        snapshot: Snapshot = life.export(place)
        assert snapshot.manifest.floors == life.floors()
        assert snapshot.manifest.versions == 2
        # As if the first host had begun after the first record.
        (partition,) = snapshot.manifest.partitions
        floor = HistoryFloor(1, snapshot.manifest.taken_at - 60_000)
        partition = replace(partition, floor_offset=floor.offset, floor_timestamp=floor.timestamp)
        (snapshot.path / "manifest.json").write_bytes(replace(snapshot.manifest, partitions=(partition,)).as_bytes())
        produce_plans(cluster, topic, ann="max")
        cold = start(topic, f"two-{lag}", history_ms=hour, head_starts=HeadStarts(place, "test"))
        cold.until_complete()
        assert cold.versions("ann") == versions
        floors = cold.floors()
        assert floors == {0: floor} if lag else floors[0].offset == 3


@pytest.mark.parametrize("history_ms", [0, 3_600_000])
def test_a_table_may_lack_what_its_snapshot_had_forgotten(cluster, new_topic, start, location, history_ms):
    topic = new_topic(**COMPACTED)
    produce_plans(cluster, topic, ann="free", bob="pro")
    first = start(topic)
    first.until_complete()
    first.export(location)
    produce_plans(cluster, topic, ann="max")
    # The first one has no history, whatever this one has.
    cold = start(topic, "two", history_ms=history_ms, head_starts=HeadStarts(location, "test"))
    cold.until_complete()
    assert (first.buried(), cold.buried()) == ({}, {0: 2})


def test_a_snapshot_is_good_whatever_the_topic_before_has_left_in_the_quarantine(
    cluster, new_topic, start, location, caplog
):
    topic = new_topic(partitions=2, **COMPACTED)
    for _ in range(5):
        cluster.produce(topic, [(key, b"no json") for key in (b"a", b"b", b"c", b"d")])
    first = start(topic)
    assert first.until_complete().quarantined == 20
    cluster.make_again(topic, partitions=1)
    produce_plans(cluster, topic, ann="free")
    cluster.produce(topic, [(b"bad", b"no json")])
    first.until(lambda _: first.rows() == {"ann": "free"}, "the rows of the new topic")
    assert first.until_complete().quarantined == 21
    first.export(location)
    cold = start(topic, "two", head_starts=HeadStarts(location, "test"))
    assert 1 <= cold.until_complete().quarantined < 21
    assert cold.rows() == {"ann": "free"}
    assert "a snapshot is not used" not in caplog.text


def test_a_snapshot_beyond_the_end_of_its_topic_is_not_used(cluster, new_topic, start, location, caplog):
    topic = new_topic(**COMPACTED)
    produce_plans(cluster, topic, ann="free")
    first = start(topic)
    first.until_complete()
    snapshot = first.export(location)
    (partition,) = snapshot.manifest.partitions
    beyond = replace(snapshot.manifest, partitions=(replace(partition, position=partition.position + 1),))
    (snapshot.path / "manifest.json").write_bytes(beyond.as_bytes())
    cold = start(topic, "two", head_starts=HeadStarts(location, "test"))
    cold.until_complete()
    assert cold.rows() == {"ann": "free"}
    reasons = [record.reason for record in caplog.records if record.getMessage() == "a snapshot is not used"]
    assert len(reasons) == 1
    assert "cut short" in reasons[0]
