"""What an observer writes, on a real broker."""

from contextlib import closing
from datetime import timedelta

from enrich.dev.stack import Addresses
from enrich.kafka import Topics, new_admin_client
from enrich.tally import Node, NodeKind, Origins
from enrich.verdict import MinuteVerdict, State, Up
from enrich.verdict.minute import HopVerdict
from enrich.verdict.summary import Summary, summary_of
from observe_service.clock import Clock
from observe_service.verdicts.observation import Checkpoint
from observe_service.watching.verdict_log import VerdictLog
from tests.support.waiting import wait_until


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
        checkpoint = Checkpoint(1, 100, {entry: ({("in", 0): 7}, origins)}, {"in": "an id"})
        write(checkpoint)
        before = written
        wait_until(is_there, what="the checkpoint")
        # In one partition, so what was there before the checkpoint has the lower offsets.
        told: list[Summary] = []
        found = log.read(100, told.extend)
        (verdict,) = found.verdicts
        assert found.checkpoint == checkpoint
        assert verdict.hops[0].came >= before
        assert told[-1] == summary_of(verdict)
        assert log.read(101).verdicts == []
