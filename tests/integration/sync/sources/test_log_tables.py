"""Tables that match a pattern become topics by one slot: they come and go, and trouble of one holds that one alone."""

import json
from collections.abc import Iterator
from contextlib import nullcontext

import psycopg
import pytest

from enrich.base.errors import ConfigError
from enrich.config import load_text
from enrich.config.sections.sync.sources import slot_name
from sync_service.sources import command
from sync_service.sources.logged import route
from tests.support.figures import unexplained_of
from tests.support.sync.many_tables import ManyTables, many_tables
from tests.support.sync.service import Running, running
from tests.support.sync.sources import SourceWorld, repeats
from tests.support.waiting import wait_until


@pytest.fixture
def many(source: SourceWorld) -> Iterator[ManyTables]:
    with many_tables(source) as tables:
        yield tables


def held(service: Running, many: ManyTables) -> dict[str, dict[str, str]]:
    """Why, by table."""
    found = service.status("in").details.get("held", {})
    return {name.removeprefix(f"{many.schema}."): why for name, why in found.items()}


def test_each_table_has_its_topic_and_all_have_one_slot(many: ManyTables) -> None:
    for number in range(5):
        many.make(f"t{number}", rows=20)
    with many.source.running():
        many.wait_equal()
        with many.source.postgres.transaction():
            for number in range(5):
                many.insert(f"t{number}", 21, 30)
                many.change(f"t{number}", "changed")
                many.delete(f"t{number}", 2)
        many.wait_equal()
        many.execute("TRUNCATE {0}.t1, {0}.t3")
        many.wait_equal()
    assert [many.records(f"t{number}") for number in (0, 2, 4)] == [32] * 3
    slots = "SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE %s"
    assert many.source.postgres.execute(slots, [f"enrich_{many.source.name}%"]).fetchone()[0] == 1


def test_a_transaction_that_takes_too_long_to_be_copied_is_left_out_and_its_tables_are_compared(
    many: ManyTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "_SHARE", 0.0)  # whatever is larger than a piece of the log takes too long
    for table in ("large", "second", "other"):
        many.make(table, rows=10)
    with many.source.running() as service:
        many.wait_equal()
        with many.source.postgres.transaction():
            many.insert("large", 11, 40_000)
            many.delete("large", 2)
            many.change("second", "at its end")
        many.change("large", "after it")
        many.change("other", "goes on")
        many.wait_equal()
        assert service.status("in").counters["readings"] == 3 + 2, "the third table was not compared again"
        many.delete("large", 3)
        many.wait_equal()
    with many.source.running() as service:
        many.change("second", "in the log")
        many.wait_equal()
        assert service.status("in").counters["readings"] == 0
    assert [repeats(many.versions(table)) for table in ("large", "second", "other")] == [[], [], []]


def test_after_a_restart_all_goes_on_in_the_log(many: ManyTables) -> None:
    for number in range(3):
        many.make(f"t{number}", rows=20)
    with many.source.running():
        many.wait_equal()
    for number in range(3):
        many.change(f"t{number}", "while away")
    with many.source.running() as service:
        many.wait_equal()
        assert service.status("in").counters["readings"] == 0
    assert [many.records(f"t{number}") for number in range(3)] == [21] * 3


def test_a_new_table_is_found_and_one_that_goes_is_reported(many: ManyTables) -> None:
    many.make("old", rows=10)
    many.make("going", rows=10)
    with many.source.running() as service:
        many.wait_equal()
        many.make("fresh", rows=10)
        many.execute("DROP TABLE {}.going")
        many.change("old", "meanwhile")
        many.wait_equal("old", "fresh")
        many.insert("fresh", 11, 20)
        many.wait_equal("fresh")
        wait_until(lambda: service.status("in").details.get("gone") == [f"{many.schema}.going"], what="the report")
        many.make("going", rows=9)
        many.wait_equal("going")
        assert service.status("in").details.get("gone") == []
    assert many.records("going") == 10 + 1
    assert many.records("fresh") == 20


def test_nothing_stays_on_the_disk_of_tables_that_were_dropped(many: ManyTables) -> None:
    def known() -> set[str]:
        return {path.name for path in (many.source.known / "tables").iterdir()}

    for table in ("today", "tomorrow", "stays"):
        many.make(table, rows=5)
    with many.source.running():
        many.wait_equal()
        assert known() == {many.topic(table) for table in ("today", "tomorrow", "stays")}
        many.execute("DROP TABLE {}.today")
        wait_until(lambda: many.topic("today") not in known(), what="the end of what was known of it")
    many.execute("DROP TABLE {}.tomorrow")
    many.execute("ALTER TABLE {}.stays DROP CONSTRAINT stays_pkey")  # it is held, and not gone
    with many.source.running() as service:
        wait_until(lambda: many.topic("tomorrow") not in known(), what="the end of what was known of the other one")
        wait_until(lambda: held(service, many), what="the table that is held")
        assert known() == {many.topic("stays")}
        many.execute("ALTER TABLE {}.stays ADD PRIMARY KEY (id)")
        many.make("today", rows=6)
        many.wait_equal()


@pytest.mark.parametrize("notices_that_it_is_gone", [False, True])
def test_a_table_that_is_made_again_and_is_empty_yet_deletes_nothing_before_a_person_says_so(
    many: ManyTables, notices_that_it_is_gone: bool
) -> None:
    many.make("fine", rows=10)
    many.make("users", rows=100)
    table = f"{many.schema}.users"
    with many.source.running() as service:
        many.wait_equal()
        with nullcontext() if notices_that_it_is_gone else many.source.postgres.transaction():
            many.execute("DROP TABLE {}.users")
            if notices_that_it_is_gone:
                wait_until(lambda: service.status("in").details.get("gone") == [table], what="the report")
            many.make("users")
        wait_until(lambda: "users" in held(service, many), what="the question")
        assert f"enrich sync confirm in/{table} " in held(service, many)["users"]["next_step"]
        many.change("fine", "goes on")
        many.wait_equal("fine")
        assert len(many.living("users")) == 100
        assert command.asked(many.source.pipeline(), f"in/{table}").missing == 100
        if notices_that_it_is_gone:
            many.insert("users", 1, 100)
        else:
            command.allow(many.source.pipeline(), f"in/{table}")
        many.wait_equal("users")
        many.insert("users", 101, 110)
        many.wait_equal("users")
    assert repeats(many.versions("users")) == []


def test_a_question_of_a_table_is_answered_by_its_name(many: ManyTables) -> None:
    for name, says in {"in": "SCHEMA.TABLE", "in/users": "SCHEMA.TABLE", "in/a.users": "no open question"}.items():
        with pytest.raises(ConfigError, match=says):
            command.asked(many.source.pipeline(), name)


def test_what_was_under_way_when_a_table_was_published_comes_also_after_a_restart(many: ManyTables) -> None:
    published = "SELECT count(*) FROM pg_publication_tables WHERE schemaname = %s AND tablename = 'late'"
    many.make("old", rows=1)
    with psycopg.connect(many.source.dsn) as another:
        with many.source.running():
            many.wait_equal("old")
            many.make("late")
            another.execute(f"INSERT INTO {many.schema}.late VALUES (1, 'not committed yet')")  # noqa: S608 - our own
            wait_until(
                lambda: many.source.postgres.execute(published, [many.schema]).fetchone()[0], what="the publication"
            )
        with many.source.running() as service:
            many.insert("old", 2, 2)
            many.wait_equal("old")
            wait_until(lambda: "late" in str(service.status("in").details.get("waiting")), what="a wait for its end")
            another.commit()
            many.wait_equal("late")


TROUBLES = {
    "no_key": ("id bigint, plan text", "ADD PRIMARY KEY", "ALTER TABLE {}.no_key ADD PRIMARY KEY (id)"),
    "no_identity": (
        "id bigint PRIMARY KEY, plan text",
        "REPLICA IDENTITY",
        "ALTER TABLE {}.no_identity REPLICA IDENTITY DEFAULT",
    ),
    "unlogged": ("id bigint PRIMARY KEY, plan text", "SET LOGGED", "ALTER TABLE {}.unlogged SET LOGGED"),
}


def test_trouble_of_a_table_holds_it_alone_until_it_is_mended(many: ManyTables) -> None:
    many.make("fine", rows=10)
    for table, (columns, _, _) in TROUBLES.items():
        many.make(table, columns, rows=5)
    many.execute("ALTER TABLE {}.no_identity REPLICA IDENTITY NOTHING")
    many.execute("ALTER TABLE {}.unlogged SET UNLOGGED")
    with many.source.running() as service:
        many.wait_equal("fine")
        wait_until(lambda: held(service, many).keys() == TROUBLES.keys(), what="the report")
        for table, (_, says, _) in TROUBLES.items():
            assert says in held(service, many)[table]["next_step"]
        # It is not published: PostgreSQL would refuse this.
        many.change("no_key", "changed")
        many.change("fine", "goes on")
        many.wait_equal("fine")
        for _, _, mend in TROUBLES.values():
            many.execute(mend)
        many.wait_equal()
        wait_until(lambda: not held(service, many), what="an end of the trouble")
        many.delete("no_key", 2)
        many.wait_equal("no_key")


def test_a_table_whose_topic_is_another_source_s_is_held(many: ManyTables) -> None:
    """Each would delete the other's rows."""
    many.make("taken", rows=3)
    many.make("free", rows=3)
    rows = many.source.directory / "rows.csv"
    rows.write_text("id,plan\n99,x\n", encoding="utf-8")
    many.source.cluster.topics.create(many.topic("taken"), config={"cleanup.policy": "compact"})
    data = many.source.data()
    origin = {"file": {"path": str(rows), "key": ["id"]}}
    data["sync"]["sources"]["other"] = {"topic": many.topic("taken"), "format": "json", "from": origin}
    with running(load_text(json.dumps(data), {})) as service:
        many.wait_equal("free")
        wait_until(lambda: many.living("taken").keys() == {b"99"}, what="the other source's row")
        wait_until(lambda: "no topic of its own" in str(held(service, many).get("taken")), what="the report")
    assert many.records("taken") == 1


def test_a_table_that_loses_its_key_is_held_and_its_users_may_go_on(many: ManyTables) -> None:
    many.make("fine", rows=10)
    many.make("losing", rows=10)
    with many.source.running() as service:
        many.wait_equal()
        many.execute("ALTER TABLE {0}.losing DROP CONSTRAINT losing_pkey")
        wait_until(lambda: "losing" in held(service, many), what="the report")
        wait_until(lambda: service.status("in").gauges.get("tables_held") == 1, what="the figure")
        assert unexplained_of("sync", [service.status("in")]) == set()
        many.change("losing", "PostgreSQL takes it")
        many.delete("losing", 2)
        many.change("fine", "goes on")
        many.wait_equal("fine")
        many.execute("ALTER TABLE {}.losing ADD PRIMARY KEY (id)")
        many.wait_equal()
    assert repeats(many.versions("losing")) == []


def test_a_table_that_somebody_locks_and_a_topic_that_somebody_deletes_hold_nothing_up(many: ManyTables) -> None:
    many.make("fine", rows=10)
    many.make("deleted", rows=10)
    with many.source.running() as service:
        many.wait_equal()
        many.make("locked", rows=10)
        with many.source.postgres.transaction():
            many.execute("LOCK TABLE {}.locked IN ACCESS EXCLUSIVE MODE")
            many.source.cluster.topics.delete(many.topic("deleted"))
            with many.source.postgres.transaction(force_rollback=True):
                pass
            wait_until(lambda: many.source.name in str(service.status("in").details), what="a status")
        many.change("fine", "goes on")
        many.wait_equal()


def test_a_table_that_somebody_works_on_for_long_holds_no_other_up(many: ManyTables) -> None:
    """As with VACUUM FULL, or a migration: of a published table, and of one that is to be published."""
    for table in ("fine", "published", "moved"):
        many.make(table, rows=10)
    with many.source.running() as service:
        many.wait_equal()
        many.make("fresh", rows=10)
        with psycopg.connect(many.source.dsn) as another:
            another.execute(f"LOCK TABLE {many.schema}.published, {many.schema}.fresh IN ACCESS EXCLUSIVE MODE")
            wait_until(lambda: "a lock that others hold" in str(held(service, many).get("fresh")), what="the report")
            many.change("fine", "goes on")
            many.execute("ALTER TABLE {}.moved ADD COLUMN region text DEFAULT 'eu'")
            many.wait_equal("fine", "moved")
        many.change("published", "afterwards")
        many.wait_equal()
        wait_until(lambda: not held(service, many), what="an end of the trouble")


def test_a_publication_that_leaves_something_out_is_known_for_it(many: ManyTables) -> None:
    for table in ("some", "part", "fine"):
        many.make(table, rows=10)
    publication = slot_name(many.source.name, "in")
    listed = "{0}.some WHERE (id > 5), {0}.part (id), {0}.fine"
    many.execute(f"CREATE PUBLICATION {publication} FOR TABLE {listed} WITH (publish_via_partition_root = true)")
    with many.source.running() as service:
        many.wait_equal("some", "fine")  # it was published anew, without the condition
        many.insert("part", 11, 20)
        wait_until(lambda: len(many.living("part")) == 20, what="the rows")
        assert many.living("part")[b"15"] == b'{"id":15}'
        assert not held(service, many)
        many.execute(f"ALTER PUBLICATION {publication} SET (publish = 'insert')")
        many.delete("fine", 1)
        many.wait_equal("fine")


def test_a_renamed_table_is_another_one(many: ManyTables) -> None:
    many.make("before", rows=10)
    with many.source.running() as service:
        many.wait_equal()
        many.execute("ALTER TABLE {}.before RENAME TO after")
        many.change("after", "renamed")
        many.wait_equal("after")
        wait_until(lambda: service.status("in").details.get("gone") == [f"{many.schema}.before"], what="the report")
    assert b"renamed" not in str(many.versions("before")).encode()


def test_a_table_that_is_named_again_is_compared_also_if_all_tables_are_published(many: ManyTables) -> None:
    for table in ("kept", "left"):
        many.make(table, rows=10)
    all_of_them = many.source.origin["postgres"]["tables"]
    publication = slot_name(many.source.name, "in")
    many.execute(f"CREATE PUBLICATION {publication} FOR ALL TABLES WITH (publish_via_partition_root = true)")
    with many.source.running():
        many.wait_equal()
    many.source.origin["postgres"]["tables"] = f"{many.schema}.kept"
    with many.source.running():
        many.change("left", "meanwhile")
        many.change("kept", "behind it in the log")
        many.wait_equal("kept")
    many.source.origin["postgres"]["tables"] = all_of_them
    with many.source.running():
        many.wait_equal()


SILENT = (
    "ALTER TABLE {0}.plain DROP COLUMN flag, ADD COLUMN flag boolean DEFAULT false",
    "ALTER TABLE {0}.plain ALTER COLUMN plan TYPE text USING upper(plan)",
    "ALTER TABLE {0}.root ATTACH PARTITION {0}.filled FOR VALUES FROM (200) TO (300)",
    "TRUNCATE {0}.filled",
    "DROP TABLE {0}.high",
)


def test_changes_of_which_the_log_says_nothing_are_found(many: ManyTables) -> None:
    many.make("plain", "id bigint PRIMARY KEY, plan text, flag boolean DEFAULT true", rows=10)
    _make_partitions(many)
    many.make("filled", rows=0)
    many.insert("filled", 200, 209)
    with many.source.running():
        many.wait_equal("plain", "root")
        for statement in SILENT:
            many.execute(statement)
            many.wait_equal("plain", "root")
            assert not many.audit("plain") and not many.audit("root")
    many.execute("CREATE TABLE {0}.high PARTITION OF {0}.root FOR VALUES FROM (100) TO (200)")
    many.insert("root", 100, 109)
    many.execute("ALTER TABLE {0}.root DETACH PARTITION {0}.filled")
    with many.source.running():
        many.wait_equal("plain", "root")
    assert repeats(many.versions("root")) == []


def test_a_partition_with_most_rows_takes_them_along_once_a_person_says_so(many: ManyTables) -> None:
    many.make("fine", rows=10)
    _make_partitions(many)
    table = f"{many.schema}.root"
    with many.source.running() as service:
        many.wait_equal("root", "fine")
        many.execute("DROP TABLE {0}.low")
        wait_until(lambda: "root" in held(service, many), what="the question")
        many.change("fine", "goes on")
        many.wait_equal("fine")
        assert len(many.living("root")) == 100
        command.allow(many.source.pipeline(), f"in/{table}")
        many.wait_equal("root")


def _make_partitions(many: ManyTables) -> None:
    """Of a table `root`: `low` with 90 rows, and `high` with 10."""
    many.execute("CREATE TABLE {}.root (id bigint PRIMARY KEY, plan text) PARTITION BY RANGE (id)")
    many.execute("CREATE TABLE {0}.low PARTITION OF {0}.root FOR VALUES FROM (0) TO (100)")
    many.execute("CREATE TABLE {0}.high PARTITION OF {0}.root FOR VALUES FROM (100) TO (200)")
    many.insert("root", 10, 109)


def test_partitions_are_followed_by_their_root(many: ManyTables) -> None:
    many.execute("CREATE TABLE {}.root (id bigint PRIMARY KEY, plan text) PARTITION BY RANGE (id)")
    many.execute("CREATE TABLE {0}.low PARTITION OF {0}.root FOR VALUES FROM (0) TO (100)")
    many.insert("root", 1, 10)
    with many.source.running() as service:
        many.wait_equal("root")
        many.execute("CREATE TABLE {0}.high PARTITION OF {0}.root FOR VALUES FROM (100) TO (200)")
        many.insert("root", 90, 110)
        many.wait_equal("root")
        assert service.status("in").details["tables"] == 1
