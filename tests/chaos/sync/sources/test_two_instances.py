"""Of two instances one works. The other waits, and takes over when the first is gone, killed or frozen."""

import psutil

from enrich.config.groups import source_group
from enrich.kafka import new_admin_client
from enrich.service.routes import RouteState
from tests.support.processes import frozen, kill
from tests.support.seed import rounds
from tests.support.sync.service import SHORT_SESSIONS, Running, running
from tests.support.sync.sources import SourceWorld, repeats
from tests.support.waiting import wait_until


def prepared(source: SourceWorld) -> None:
    source.make_topic()
    source.make_table(rows=500)
    source.with_cursor()


def elsewhere(source: SourceWorld) -> SourceWorld:
    """The same source on another host: with a directory of its own."""
    other = object.__new__(SourceWorld)
    other.__dict__ = {**source.__dict__, "directory": source.directory / "elsewhere"}
    return other


def counted(instance: Running, what: str) -> int:
    """A moment after the rows can be seen."""
    return instance.status("in").counters[what]


def test_the_second_waits_and_takes_over_at_once_when_the_first_leaves(source: SourceWorld) -> None:
    prepared(source)
    with source.running() as first:
        source.wait_equal()  # of two that begin at once either may have to leave its turn to the other
        with running(elsewhere(source).pipeline()) as second:
            wait_until(lambda: "its turn" in waiting_of(second), what="one that waits")
            assert second.status("in").counters["readings"] == 0
            assert second.status("in").state is RouteState.standby
            first.stop()
            source.execute("UPDATE {} SET plan = 'x', at = clock_timestamp() WHERE id < 10")
            source.wait_equal()
            wait_until(lambda: counted(second, "rows_written") == 9, what="the count of the nine")
    assert repeats(source.versions()) == []


def test_the_second_takes_over_when_the_first_is_killed(source: SourceWorld) -> None:
    prepared(source)
    source.client = SHORT_SESSIONS
    with source.process() as first:
        source.wait_equal()
        with running(elsewhere(source).pipeline()) as second:
            wait_until(lambda: "its turn" in waiting_of(second))
            kill(first.pid)
            source.execute("DELETE FROM {} WHERE id < 10")
            source.wait_equal()
            wait_until(lambda: counted(second, "rows_deleted") == 9, what="the count of the nine")
    assert repeats(source.versions()) == []


def test_one_that_was_frozen_is_fenced_and_writes_nothing_more(source: SourceWorld) -> None:
    """It comes back in the middle of its work, sure that it has the turn."""
    prepared(source)
    source.client = SHORT_SESSIONS
    with source.process() as first:
        source.wait_equal()
        with running(elsewhere(source).pipeline()) as second:
            wait_until(lambda: "its turn" in waiting_of(second))
            with frozen(first.pid):
                source.execute("UPDATE {} SET plan = 'while it was frozen', at = clock_timestamp()")
                source.wait_equal()
                wait_until(lambda: counted(second, "rows_written") == 500, what="the count of all rows")
            # On a slow machine the second may lose its turn to the first by now: whoever has it writes this.
            source.execute("UPDATE {} SET plan = 'after', at = clock_timestamp()")
            source.wait_equal()
            assert psutil.pid_exists(first.pid)
    assert repeats(source.versions()) == []


def test_the_second_of_a_host_waits_for_one_that_stands_still_to_end(source: SourceWorld) -> None:
    """It has the turn, and the other one still has their directory."""
    prepared(source)
    source.client = SHORT_SESSIONS
    with source.process() as first:
        source.wait_equal()
        with source.running() as second:
            wait_until(lambda: "its turn" in waiting_of(second))
            with frozen(first.pid):
                source.execute("UPDATE {} SET plan = 'while it was frozen', at = clock_timestamp()")
                wait_until(lambda: "another process" in str(second.status("in").last_error), what="why it waits")
                assert second.status("in").state is RouteState.waiting
                kill(first.pid)
            source.wait_equal()
            wait_until(lambda: counted(second, "rows_written") == 500, what="the count of all rows")
    assert repeats(source.versions()) == []


def test_one_that_was_frozen_alone_goes_on(source: SourceWorld) -> None:
    """It has lost its turn and gets it back at once, as nobody else wants it."""
    prepared(source)
    source.client = SHORT_SESSIONS
    with source.process() as process:
        source.wait_equal()
        for number in range(rounds(1, 3)):
            with frozen(process.pid):
                source.execute("UPDATE {} SET plan = %s, at = clock_timestamp()", f"frozen {number}")
                wait_until(lambda: not members(source), what="a group without members")
            source.wait_equal()
    assert repeats(source.versions()) == []


def test_one_that_was_frozen_in_the_middle_of_a_transaction_cannot_commit_it(source: SourceWorld) -> None:
    """Another instance has aborted it by then, and written what was in it."""
    prepared(source)
    source.client = SHORT_SESSIONS
    source.insert(1_000, 30_000)
    with source.process() as first:
        source.wait_equal()
        with running(elsewhere(source).pipeline()) as second:
            wait_until(lambda: "its turn" in waiting_of(second))
            before = sum(source.cluster.topics.written_offsets(source.topic).values())
            source.execute("UPDATE {} SET plan = 'first', at = clock_timestamp()")
            wait_until(lambda: sum(source.cluster.topics.written_offsets(source.topic).values()) > before)
            with frozen(first.pid):
                source.execute("UPDATE {} SET plan = 'second', at = clock_timestamp() WHERE id > 15000")
                source.wait_equal()
            source.execute("UPDATE {} SET plan = 'third', at = clock_timestamp() WHERE id <= 300")
            source.wait_equal()
    assert repeats(source.versions()) == []


def members(source: SourceWorld) -> int:
    """How many wait for their turn or have it."""
    admin, group = new_admin_client(source.cluster.connection), source_group(source.name, "in")
    return len(admin.describe_consumer_groups([group])[group].result(15).members)


def waiting_of(service: Running) -> str:
    return str(service.status("in").details.get("warnings", ""))
