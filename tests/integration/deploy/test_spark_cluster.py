"""Spark's master and worker, started as the compose file says: healthy, joined, and readable by Prometheus."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from enrich.dev.servers.ports import is_listening
from tests.integration.deploy.started import HOST, Moved, is_healthy, process
from tests.support.waiting import wait_until
from tests.unit.deploy.compose import parse_compose, parse_yaml
from tests.unit.deploy.installed import ROOT, read

COMPOSE = parse_compose(read("docker-compose.yml"))
JOBS = {job["job_name"]: job for job in parse_yaml(read("deploy/prometheus/prometheus.yml"))["scrape_configs"]}


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.moved = Moved(COMPOSE, "spark-master", "spark-worker")
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._folder = folder
        self._environment = {
            # What the image sets.
            "SPARK_CONF_DIR": str(ROOT / "deploy/spark"),
            "SPARK_WORKER_DIR": str(folder / "work"),
            # Not open to other machines, and started sooner.
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
        }

    @contextmanager
    def started(self, name: str) -> Iterator[None]:
        """Runs inside the block, from the moment when it is healthy."""
        service = COMPOSE.services[name]
        own = {key: self.moved.text(value, service) for key, value in service.environment.items()}
        folder = self._folder / name
        with process(self.moved.words(service.command, service), {**own, **self._environment}, folder) as running:
            self.running[name] = running
            (page,) = service.published
            port = self.moved.port(name, page.container_port)

            def is_ready() -> bool:
                assert running.poll() is None, (folder / "output.log").read_text(encoding="utf-8")
                # The health check starts a Python each time: only once there is something to ask.
                return is_listening(port) and self.is_healthy(name)

            wait_until(is_ready, what=f"the health of {name}")
            yield

    def is_healthy(self, name: str) -> bool:
        service = COMPOSE.services[name]
        return is_healthy(self.moved.words(service.health_check, service), {})

    def get(self, name: str, port: int, path: str) -> tuple[str, str]:
        """The type and the text of a page."""
        with urllib.request.urlopen(f"http://{HOST}:{self.moved.port(name, port)}{path}", timeout=60) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    def metrics(self, job_name: str) -> dict[str, float]:
        """What Prometheus would read."""
        (target,) = JOBS[job_name]["static_configs"][0]["targets"]
        name, _, port = target.partition(":")
        content_type, text = self.get(name, int(port), JOBS[job_name]["metrics_path"])
        # Prometheus refuses a page of another type; HTML is what Spark shows where it has no metrics.
        assert content_type.startswith("text/plain")
        return {
            sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples
        }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("spark"))
    with cluster.started("spark-master"), cluster.started("spark-worker"):
        yield cluster


def test_a_healthy_worker_is_one_that_has_joined_the_master(cluster):
    (worker,) = json.loads(cluster.get("spark-master", 8080, "/json/")[1])["workers"]
    assert worker["state"] == "ALIVE"
    assert worker["cores"] == 2
    assert worker["memory"] == 2048


def test_the_masters_page_links_to_the_worker_by_a_name_that_a_browser_outside_knows(cluster):
    (worker,) = json.loads(cluster.get("spark-master", 8080, "/json/")[1])["workers"]
    assert worker["webuiaddress"].startswith("http://localhost:")


def test_prometheus_reads_the_metrics_of_the_master(cluster):
    metrics = cluster.metrics("spark-master")
    assert metrics["metrics_master_aliveWorkers_Value"] == 1
    assert metrics["metrics_master_waitingApps_Value"] == 0


def test_prometheus_reads_the_metrics_of_the_worker(cluster):
    metrics = cluster.metrics("spark-worker")
    assert metrics["metrics_worker_coresFree_Value"] == 2
    assert metrics["metrics_worker_executors_Value"] == 0


def test_nobody_can_submit_jobs_to_the_master_over_http(cluster):
    master = psutil.Process(cluster.running["spark-master"].pid)
    listening = {one.laddr.port for one in master.net_connections() if one.status == psutil.CONN_LISTEN}
    assert listening == {cluster.moved.port("spark-master", 7077), cluster.moved.port("spark-master", 8080)}


def test_the_worker_ends_soon_after_sigterm_and_is_not_healthy_any_more(cluster):
    worker = cluster.running["spark-worker"]
    worker.terminate()
    assert worker.wait(timeout=60) == 143  # 128 + SIGTERM: the JVM's way of ending on it
    assert not cluster.is_healthy("spark-worker")
