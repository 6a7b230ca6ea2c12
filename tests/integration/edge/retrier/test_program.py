"""The retrier as a program: what its status says on the command line, and how it ends."""

from contextlib import closing
from pathlib import Path

from tests.support import dashboard
from tests.support.commands import enrich, lines
from tests.support.edge.retries import RetrierProcess, RetryWorld
from tests.support.figures import unexplained
from tests.support.kafka.topics import Cluster
from tests.support.waiting import wait_until


def test_its_status_says_what_waits_for_which_pause_and_it_ends_with_0_when_it_is_stopped(
    cluster: Cluster, tmp_path: Path
) -> None:
    world = RetryWorld(cluster, pauses=("1s", "1h"))
    world.make_topics()
    world.put(range(5))
    world.put(range(5, 12), topic=world.retry_in("1h"))
    retrier = RetrierProcess(tmp_path, world)
    with closing(retrier):
        world.wait_for(range(5))
        wait_until(lambda: retrier.route().get("lag") == 7, what="the others to be read")
        (route,) = lines(enrich("retrier", "status", "-c", retrier.config, "--json"))
        assert (route["name"], route["kind"], route["state"]) == ("acme", "retry", "running")
        shown = {one["pause"]: (one["waiting"], one["forwarded"]) for one in route["details"]["pauses"]}
        assert shown == {"1s": (0, 5), "1h": (7, 0)}
        assert dashboard.shown("retrier") <= dashboard.exposed(retrier.get("/metrics")[1])
        assert unexplained("retrier", retrier.get("/metrics")[1]) == set()
        people = enrich("retrier", "status", "-c", retrier.config)
        assert people.returncode == 0
        assert [word for word in ("acme", "running", "1s", "1h", "7", "5") if word not in people.stdout] == []
        assert retrier.stop() == 0
    assert enrich("retrier", "status", "-c", retrier.config).returncode == 3
