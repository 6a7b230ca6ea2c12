"""Ingest and its broker are killed under load: what was acknowledged is in the topic, and what was refused is not
written afterwards."""

import pytest

from enrich.dev import Stack
from tests.chaos.edge.ingest.senders import Senders
from tests.chaos.edge.ingest.worlds import check, world_of
from tests.support.processes import kill
from tests.support.seed import rounds


@pytest.fixture
def own_stack(tmp_path):
    stack = Stack(tmp_path / "stack")
    yield stack
    stack.reset(yes=True)


def test_nothing_acknowledged_is_lost_and_nothing_refused_appears_later(own_stack, tmp_path):
    world = world_of(own_stack, tmp_path)
    with Senders(world.port) as senders:
        for _ in range(rounds(1, 20)):
            for _ in range(3):
                with world.ingest() as ingest:
                    senders.until_acknowledged(300)
                    kill(ingest.process.pid)
            with world.ingest():
                senders.until_acknowledged(300)
                world.kill("kafka")
                senders.until_answered(503, 8)
                own_stack.up()
                senders.until_acknowledged(300)
    assert senders.refused
    assert set(senders.answers) == {200, 503}
    check(world, senders)
