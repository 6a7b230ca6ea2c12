"""A source says that another instance is active only while there is one."""

import threading
from pathlib import Path

from enrich.kafka import new_admin_client
from enrich.service.routes import RouteState
from sync_service.sources.reporting import StatusReporter
from sync_service.sources.route import Connections, SourceWork, in_turn
from tests.support.kafka.topics import Cluster


def test_a_source_that_is_alone_does_not_stand_by_while_it_gets_its_turn(
    cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    work = SourceWork("in", f"source of {topic}", topic, tmp_path, 1.0, 1.0, "confirm", "rows")
    connections = Connections(cluster.connection, cluster.connection, cluster.connection)
    admin, reporter = new_admin_client(cluster.connection), StatusReporter("in")
    with in_turn(work, connections, admin, reporter, threading.Event()) as checkpoint:
        assert checkpoint is not None
        assert reporter.status.state is RouteState.starting
