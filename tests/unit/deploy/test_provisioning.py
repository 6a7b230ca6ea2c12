"""Prometheus scrapes what answers, Grafana asks Prometheus, and every file of deploy/ can be read and is used."""

import pytest

from tests.unit.deploy.compose import parse_compose, parse_yaml
from tests.unit.deploy.dockerfile import parse_dockerfile
from tests.unit.deploy.installed import ROOT, read
from tests.unit.deploy.provisioning_checks import (
    data_source_problems,
    prometheus_problems,
    spark_metrics_problems,
)

COMPOSE = parse_compose(read("docker-compose.yml"))
PROMETHEUS = read("deploy/prometheus/prometheus.yml")
DATA_SOURCES = read("deploy/grafana/datasources/prometheus.yml")
SPARK_METRICS = read("deploy/spark/metrics.properties")
FILES = sorted(
    path
    for path in (ROOT / "deploy").rglob("*")
    if path.is_file() and path.parent.name != "kubernetes"  # for another cluster than that of the compose file
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_is_given_to_a_container(path):
    copied = [
        source
        for stage in parse_dockerfile(read("Dockerfile")).stages
        for copy in stage.all("COPY")
        for source in copy.sources
    ]
    mounted = [mount.source for service in COMPOSE.services.values() for mount in service.mounts]
    given = [(ROOT / source).resolve() for source in (*copied, *mounted)]
    assert any(path.is_relative_to(source) for source in given)


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.suffix in (".yml", ".yaml")], ids=lambda path: path.name
)
def test_every_yaml_file_can_be_read(path):
    assert isinstance(parse_yaml(path.read_text(encoding="utf-8")), dict)


def test_prometheus_scrapes_only_what_answers():
    assert prometheus_problems(COMPOSE, PROMETHEUS, SPARK_METRICS) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("spark-master:8080", "spark-master:8081", "job spark-master: spark-master does not listen on 8081"),
        ("spark-worker:8081", "worker:8081", "job spark-worker: no service is called worker"),
        ("/metrics/master/prometheus/", "/metrics", "job spark-master: Spark has no metrics at /metrics"),
        (
            "metrics_path: /metrics/prometheus/",
            "metrics_path: /metrics/prometheus",
            "job spark-worker: Spark has no metrics",
        ),
        ("job_name: spark-worker", "job_name: spark-master", "two jobs are called spark-master"),
        ("metrics_path", "metric_path", "no such setting: metric_path"),
    ],
)
def test_a_scrape_that_nobody_answers_is_found(old, new, problem):
    assert old in PROMETHEUS
    found = prometheus_problems(COMPOSE, PROMETHEUS.replace(old, new), SPARK_METRICS)
    assert any(problem in one for one in found)


def test_grafana_asks_prometheus():
    assert data_source_problems(COMPOSE, DATA_SOURCES, PROMETHEUS) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("prometheus:9090", "prometheus:9091", "data source: prometheus does not listen on 9091"),
        ("prometheus:9090", "grafana:3000", "not the address of Prometheus: http://grafana:3000"),
        ("timeInterval: 15s", "timeInterval: 5s", "takes another interval"),
        ("isDefault: true", "isDefault: false", "there must be one default data source"),
        ("access:", "acess:", "no such setting: acess"),
    ],
)
def test_a_data_source_that_leads_elsewhere_is_found(old, new, problem):
    assert old in DATA_SOURCES
    found = data_source_problems(COMPOSE, DATA_SOURCES.replace(old, new), PROMETHEUS)
    assert any(problem in one for one in found)


def test_spark_has_the_sink_that_its_metrics_go_to():
    assert spark_metrics_problems(SPARK_METRICS) == []
    assert spark_metrics_problems(SPARK_METRICS.replace("PrometheusServlet", "PrometheusSink")) != []
