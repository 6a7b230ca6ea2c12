"""The service as a process, and the commands that people give it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support import dashboard
from tests.support.figures import unexplained
from tests.support.sync.service import Program, SyncWorld, program
from tests.support.waiting import wait_until


def enrich(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "enrich", "sync", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)


def metric(service: Program, name: str) -> float:
    lines = [line for line in service.get("/metrics")[1].splitlines() if line.startswith(f"{name}{{")]
    assert lines, f"no {name}"
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def test_a_service_tells_how_it_is_and_stops_in_good_order(world: SyncWorld, tmp_path: Path) -> None:
    world.make_topic()
    world.produce(("a", {"plan": "secret-payload", "rps": 1}), ("b", {"plan": "secret-payload", "rps": 2}))
    with program(world, tmp_path, world.to_redis()) as service:
        wait_until(lambda: service.get("/readyz")[0] == 200, what="ready")
        wait_until(lambda: service.route().get("counters", {}).get("rows_written") == 2)
        assert service.get("/healthz")[0] == 200
        assert service.get("/nothing")[0] == 404
        assert metric(service, "enrich_sync_rows_written_total") == 2
        # Rows that differ are known once they have been compared, which this service does after a day.
        named = dashboard.shown("sync") - {"enrich_sync_differences", "enrich_sync_tables_held"}
        wait_until(lambda: named <= dashboard.exposed(service.get("/metrics")[1]), what="all figures")
        assert unexplained("sync", service.get("/metrics")[1]) == set()
        wait_until(lambda: metric(service, "enrich_sync_lag") == 0, what="the end of the topic")
        told = enrich("status", "-c", service.config, "--json")
        assert told.returncode == 0, told.stderr
        assert json.loads(told.stdout)["state"] == "running"
        assert "running" in enrich("status", "-c", service.config).stdout
        assert service.stop() == 0
        assert "secret-payload" not in service.log
        assert enrich("status", "-c", service.config).returncode == 3
    with program(world, tmp_path, world.to_redis()) as service:
        wait_until(lambda: service.get("/readyz")[0] == 200 and service.route()["lag"] == 0)
        assert service.route()["counters"]["records_read"] == 0, "the first one had committed"


def test_a_store_that_is_away_makes_the_service_unready_and_not_unhealthy(world: SyncWorld, tmp_path: Path) -> None:
    world.make_topic()
    with program(world, tmp_path, world.to_redis("redis://127.0.0.1:1/0")) as service:
        wait_until(lambda: service.route().get("state") == "waiting", what="the route to wait")
        assert service.get("/healthz")[0] == 200
        code, body = service.get("/readyz")
        assert code == 503 and "check that Redis runs" in json.loads(body)["not_ready"]["out"]
        assert enrich("status", "-c", service.config).returncode == 1
        assert service.stop() == 0


def test_reconcile_is_told_as_one_object_a_line_and_by_the_exit_code(world: SyncWorld, tmp_path: Path) -> None:
    world.make_topic()
    world.produce(*((f"k{n}", {"plan": "x", "rps": n}) for n in range(5)))
    with program(world, tmp_path, world.to_redis()) as service:
        wait_until(lambda: len(world.in_redis()) == 5)
        assert service.stop() == 0
        assert enrich("reconcile", "out", "-c", service.config).returncode == 0
        world.redis.hset(f"{world.name}:k3", "plan", "altered")
        done = enrich("reconcile", "-c", service.config, "--json")
        assert done.returncode == 1, done.stderr
        lines: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
        assert lines[0]["difference"]["key"] == "k3" and lines[0]["difference"]["kind"] == "altered"
        assert (lines[1]["rows"], lines[1]["differences"], lines[1]["agrees"]) == (5, 1, False)
        shown = enrich("reconcile", "out", "-c", service.config, "--repair")
        assert shown.returncode == 0 and "repaired" in shown.stdout, shown.stderr
        assert world.redis.hget(f"{world.name}:k3", "plan") == "x"
        assert enrich("reconcile", "nope", "-c", service.config).returncode == 2


def test_a_periodic_reconciliation_is_a_metric(world: SyncWorld, tmp_path: Path) -> None:
    world.make_topic()
    world.produce(*((f"k{n}", {"plan": "x", "rps": n}) for n in range(5)))
    with program(world, tmp_path, world.to_redis(), reconcile="500ms") as service:
        wait_until(lambda: len(world.in_redis()) == 5)
        wait_until(lambda: service.route("out.reconcile").get("gauges", {}).get("differences") == 0)
        world.redis.hset(f"{world.name}:k3", "plan", "altered")
        wait_until(lambda: metric(service, "enrich_sync_differences") == 1, what="the metric")
        assert world.redis.hget(f"{world.name}:k3", "plan") == "altered", "it only tells"
