"""Fills the disk under an agent. A program of its own, run inside a mount namespace:

    unshare -rm python -m tests.chaos.host.disk_full DIRECTORY BOOTSTRAP_SERVERS TOPIC

It asserts by itself, and ends with "held" when everything held.
"""

import sys
from pathlib import Path

from tests.support.host.agents import AgentLife, plans_table, produce_plans
from tests.support.kafka.topics import Cluster
from tests.support.small_disk import fill, mount


def main(disk: Path, cluster: Cluster, topic: str) -> None:
    ballast = disk / "ballast"
    produce_plans(cluster, topic, ann="free", bob="pro")
    life = AgentLife(disk / "agent", cluster.connection, plans_table(topic)).start()
    life.until_complete()
    fill(ballast)
    # More than one: what RocksDB had set aside may take the first.
    for number in range(20):
        produce_plans(cluster, topic, ann=str(number), bob=None, **{f"k{number}": "x" * 20_000})
    full = life.until(lambda state: state.reason is not None, "the refusal")
    assert "space" in str(full.reason), full
    later = [life.state() for _ in range(5)][-1]
    assert (later.ready, later.complete_through) == (True, full.complete_through), later
    assert not life.rows().get("ann", "").startswith("19")
    ballast.unlink()
    state = life.until_complete()
    assert state.reason is None, state
    assert life.rows() == {"ann": "19", **{f"k{number}": "x" * 20_000 for number in range(20)}}
    life.verify()
    life.stop()


if __name__ == "__main__":
    folder, servers, name = sys.argv[1:]
    mount(Path(folder), "24m")
    (Path(folder) / "agent").mkdir()
    main(Path(folder), Cluster({"bootstrap.servers": servers}), name)
    sys.stdout.write("held")
