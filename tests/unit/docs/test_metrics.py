"""The pages explain every figure of a program. What needs a running one is in the integration tests."""

import re

import pytest

from edge_service.ingest.processes import metrics as ingest_metrics
from edge_service.ingest.processes.overview import Overview
from edge_service.ingest.processes.planning import addresses_of
from enrich.config import load_text
from enrich.host.ipc.header import Header, TableState
from enrich.host.process.metrics import AgentMetrics
from enrich.stage.measure.metrics import StageMetrics
from tests.support.figures import unexplained
from tests.unit.deploy.compose import parse_yaml
from tests.unit.deploy.installed import read

_INGEST = """
name: plays
kafka: {bootstrap_servers: 'h:1'}
ingest: {plays: {path: /plays, topic: plays, format: json}}
"""


def of_agent() -> bytes:
    header = Header("store", 1, 1, 0, 1, 1, 1, {"users": TableState()})
    return AgentMetrics("plays", lambda: header, lambda: {"agent": 1.0}).exposition()


def of_ingest() -> bytes:
    overview = Overview(addresses_of(load_text(_INGEST, {})), {"127.0.0.1:8080": 8080}, clock=lambda: 0.0)
    return ingest_metrics.exposition(overview, "plays")


def of_stage() -> bytes:
    return StageMetrics("plays", "enrich", [], routes=["all"]).exposition()


@pytest.mark.parametrize(("program", "page"), [("agent", of_agent()), ("ingest", of_ingest()), ("stage", of_stage())])
def test_every_figure_is_explained(program: str, page: bytes) -> None:
    assert unexplained(program, page.decode()) == set()


@pytest.mark.parametrize("program", ["expel", "retrier", "sync"])
def test_a_route_that_needs_a_person_is_told_by_prometheus_too(program: str) -> None:
    rules = [rule for group in parse_yaml(read("deploy/prometheus/rules.yml"))["groups"] for rule in group["rules"]]
    states = [re.search(rf'enrich_{program}_state{{state=~"([a-z|]+)"}}', rule["expr"]) for rule in rules]
    (told,) = [found[1].split("|") for found in states if found]
    assert {"held", "stopped"} <= {*told}
