"""What an observer writes, on a real broker."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from enrich.dev.stack import Addresses
from enrich.kafka import Topics, new_admin_client
from enrich.tally import Node, NodeKind, Origins
from enrich.verdict import MinuteVerdict, State, Up
from enrich.verdict.minute import HopVerdict, named, origins_of
from enrich.verdict.summary import Summary, summary_of
from observe_service.alarms.board import Alarm
from observe_service.clock import Clock
from observe_service.verdicts.observation import Checkpoint
from observe_service.watching.verdict_log import VerdictLog
from tests.support.kafka.fatal import make_fatal
from tests.support.waiting import wait_until


def new_log(stack: Addresses, topic: str, config: Mapping[str, str] | None = None) -> VerdictLog:
    connection = {"bootstrap.servers": str(stack.bootstrap_servers)}
    topics = Topics(new_admin_client(connection))
    if config is not None:
        topics.create(topic, config=config)
    return VerdictLog(connection, connection, topics, topic, timedelta(days=1), Clock())


def is_written(log: VerdictLog) -> bool:
    """As often as the observer does."""
    log.push()
    return not log._left and not log._under_way and log._due is None


def sparse(first: int, count: int = 3_000) -> Origins:
    return Origins.of_offsets("t" * 200, 3, [123_456_789 + first + 5 * number for number in range(count)])


def test_a_checkpoint_is_written_although_there_is_always_a_verdict_under_way(stack: Addresses) -> None:
    """While a node works off a backlog the reasons of its minutes change every second."""
    connection = {"bootstrap.servers": str(stack.bootstrap_servers)}
    topics, written = Topics(new_admin_client(connection)), 0
    log = VerdictLog(connection, connection, topics, "always-under-way.minutes", timedelta(days=1), Clock())
    with closing(log):
        log.begin()
        assert log.read(0).checkpoint is None

        def write(checkpoint: Checkpoint | None = None) -> None:
            nonlocal written
            written += 1
            hop = HopVerdict("stage", "prepare", came=written)
            log.write([MinuteVerdict("prepare", 100, State.OPEN, Up.UNKNOWN, [hop])], checkpoint)

        def is_there() -> bool:
            write()
            return log.read_on().checkpoint is not None

        entry = Node("p", NodeKind.stage, "prepare")
        origins = Origins.of_ranges([("in", 0, 17, 20)])
        bases = {entry: {("in", 0): 17, ("in", 1): 4}}
        checkpoint = Checkpoint(1, 100, {entry: ({("in", 0): 7}, origins)}, {"in": "an id"}, {"in": 5}, bases)
        write(checkpoint)
        before = written
        wait_until(is_there, what="the checkpoint")
        # In one partition, so what was there before the checkpoint has the lower offsets.
        told: list[Summary] = []
        found = log.read(100, told.extend)
        (verdict,) = found.verdicts()
        assert found.checkpoint == checkpoint
        assert verdict.hops[0].came >= before
        assert told[-1] == summary_of(verdict)
        assert log.read(101).records == []


@pytest.mark.parametrize(
    ("topic", "config"),
    [
        # More than a producer takes at all, and more than the topic does.
        ("too-large.minutes", None),
        ("too-large-for-it.minutes", {"cleanup.policy": "compact", "max.message.bytes": "50000"}),
    ],
)
def test_a_verdict_that_is_too_large_names_fewer(
    stack: Addresses, topic: str, config: Mapping[str, str] | None
) -> None:
    fates = ("lost", "unknown", "waiting", "dead")
    found = {fate: named(sparse(number)) for number, fate in enumerate(fates)}
    names, more = {fate: some for fate, (some, _) in found.items()}, {fate: rest for fate, (_, rest) in found.items()}
    whole = HopVerdict("stage", "prepare", came=12_000, lost=3_000, names=names, more=more)
    placed = sparse(4, 6_000)
    checkpoint = Checkpoint(1, 100, {Node("p", NodeKind.stage, "prepare"): ({("in", 0): 7}, placed)}, {"in": "an id"})
    with closing(new_log(stack, topic, config)) as log:
        log.begin()
        assert log.read(0).records == []
        for second in range(3):  # a newer one, before the one before could be written
            hops = [replace(whole, open=second)]
            log.write([MinuteVerdict("prepare", 100, State.SETTLED, Up.DOWN, hops)], checkpoint)
        wait_until(lambda: is_written(log), what="the verdict, and the checkpoint behind it")
        assert log.trouble is None
        written = log.read(100)
    ((hop,),) = [verdict.hops for verdict in written.verdicts()]
    assert (hop.came, hop.lost, hop.open) == (12_000, 3_000, 2)
    for number, fate in enumerate(fates):
        still = origins_of(hop.names[fate])
        assert 0 < len(hop.names[fate]) < len(names[fate])
        assert still - sparse(number) == Origins()
        assert len(still) + hop.more[fate] == 3_000
    assert written.checkpoint is not None
    ((floors, origins),) = written.checkpoint.placed.values()
    assert (floors, origins - placed) == ({("in", 0): 7}, Origins())
    assert origins


def test_what_can_never_be_written_is_shown_for_as_long_as_it_waits(stack: Addresses) -> None:
    with closing(new_log(stack, "never.minutes")) as log:
        log.begin()
        log.write_alarm(Alarm("large", "x" * 2**21, 1))
        assert log.trouble is not None
        log.write_alarm(Alarm("small", "x", 1))

        def only_large_is_left() -> bool:
            log.push()
            return len(log._left) == 1 and not log._under_way

        wait_until(only_large_is_left, what="the other one")
        assert "Message size too large" in str(log.trouble)
        log.write_alarm(Alarm("large", "x", 1))
        wait_until(lambda: is_written(log), what="a shorter one")
        assert log.trouble is None


def test_verdicts_are_written_by_a_new_producer(stack: Addresses) -> None:
    with closing(new_log(stack, "fatal-producer.minutes")) as log:
        log.begin()
        log.read(0)
        for minute in (100, 101):
            hop = HopVerdict("stage", "prepare", came=minute)
            log.write([MinuteVerdict("prepare", minute, State.SETTLED, Up.UP, [hop])], Checkpoint(1, minute))
            make_fatal(log._producer)
            log.write_alarm(Alarm("lag/prepare", "slow", minute))
            wait_until(lambda: is_written(log), what="all of it")
            assert log.trouble is None
        written = log.read(100)
        assert [verdict.minute for verdict in written.verdicts()] == [100, 101]
        assert written.checkpoint == Checkpoint(1, 101)
        assert [alarm.since_ms for alarm in written.alarms] == [101]
        make_fatal(log._producer)
