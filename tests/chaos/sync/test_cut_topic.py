"""A topic that lost its tail uses offsets twice: a route notices, whether it reads or is away."""

import json
import shutil
from pathlib import Path

import psutil
import pytest

from enrich.base.errors import WouldLoseData
from enrich.config import load_text
from sync_service.reconcile import Reconciliation
from sync_service.writeback.plan import plans_of
from sync_service.writeback.route import Clients
from tests.support.servers.restarted import Servers
from tests.support.sync.service import SHORT_SESSIONS, Running, SyncWorld
from tests.support.waiting import wait_until


def produce(world: SyncWorld, plan: str, numbers: range) -> None:
    world.produce(*((f"k{number}", {"plan": plan, "rps": number}) for number in numbers))


@pytest.mark.parametrize(
    ("is_away", "has_grown"),
    [(False, False), (True, False), (True, True)],
    ids=["the route reads", "the route is away", "the route is away until the topic is longer than it was"],
)
def test_offsets_that_are_used_again_lose_no_update(
    world: SyncWorld, chaos: Servers, tmp_path: Path, is_away: bool, has_grown: bool
) -> None:
    """As after an unclean election: the offsets are there again, with other records."""
    data = world.data(world.to_redis())
    data["kafka"]["client"] = SHORT_SESSIONS
    pipeline = load_text(json.dumps(data), {})

    def rows() -> dict[str, str]:
        return {key: row["plan"] for key, row in world.in_redis().items()}

    produce(world, "kept", range(40))
    logs = sorted((chaos.stack.folder.path / "kafka" / "data").glob(f"{world.topic}-*"))
    assert len(logs) == 4
    _stop_kafka(chaos)
    for log in logs:
        shutil.copytree(log, tmp_path / log.name)
    chaos.restart()
    produce(world, "lost", range(20, 60))
    service = Running(pipeline)
    try:
        wait_until(lambda: len(rows()) == 60 and service.status().lag == 0)
        wait_until(lambda: sum(world.committed().values()) == 80)
        if is_away:
            service.stop()
        _stop_kafka(chaos)
        for log in logs:
            shutil.rmtree(log)
            shutil.copytree(tmp_path / log.name, log)
        chaos.restart()
        if has_grown:  # beyond the place that was reached
            produce(world, "new", range(160))
        if is_away:
            service = Running(pipeline)
        wait_until(lambda: service.status().state == "held", what="the route to be held")
        assert "lost records that this route had read" in (service.status().last_error or "")
        if not has_grown:
            produce(world, "new", range(160))
        reconciliation = Reconciliation(plans_of(pipeline)[0], Clients(pipeline))
        world.redis.hset(f"{world.name}:gone", mapping={"_version": 2**40 + 15, "plan": "lost", "rps": 1})
        with pytest.raises(WouldLoseData, match="would delete 1 rows"):
            reconciliation.run(repair=True)
        assert reconciliation.run(repair=True, yes=True).generation == 3
        wait_until(lambda: service.status().state == "running", what="the route to go on")
        produce(world, "newest", range(3))
        wanted = {f"k{n}": "newest" if n < 3 else "new" for n in range(160)}
        wait_until(lambda: rows() == wanted, what="the rows of the topic")
    finally:
        service.stop()


def _stop_kafka(chaos: Servers) -> None:
    """In good order: a leader that was killed begins no new term when it is back."""
    broker = psutil.Process(chaos.pid("kafka"))
    broker.terminate()
    broker.wait(60)
