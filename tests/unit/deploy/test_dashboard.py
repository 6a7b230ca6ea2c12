"""The dashboard shows all that a stage with routes says of itself. What runs beside it is in the integration tests."""

import json
import re
from itertools import combinations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from enrich.stage.measure.metrics import StageMetrics
from tests.support.dashboard import shown
from tests.unit.deploy.installed import read

DASHBOARD = json.loads(read("deploy/grafana/dashboards/enrich.json"))
PANELS = DASHBOARD["panels"]


def test_the_dashboard_shows_every_metric_of_a_stage_and_none_that_there_is_not():
    metrics = StageMetrics("plays", "enrich", [], routes=["all"])
    there = {family.name for family in text_string_to_metric_families(metrics.exposition().decode())}
    # Before its first batch a stage does not say when the last one was.
    assert {re.sub(r"_(total|bucket)$", "", name) for name in shown("stage")} == {
        *there,
        "enrich_stage_last_batch_timestamp_seconds",
    }


def test_no_two_panels_lie_on_each_other_or_have_the_same_number():
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    for one, other in combinations([panel["gridPos"] for panel in PANELS], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]


@pytest.mark.parametrize(
    "metric",
    [
        "enrich_agent_seq",
        "enrich_stage_events_total",
        "enrich_ingest_processes",
        "enrich_expel_state",
        "enrich_retrier_state",
        "enrich_sync_state",
        "enrich_observe_ready",
    ],
)
def test_a_pipeline_can_be_chosen_whatever_of_it_is_scraped(metric):
    (pipeline,) = (one for one in DASHBOARD["templating"]["list"] if one["name"] == "pipeline")
    (names,) = re.findall(r'^label_values\(\{__name__=~"(.+)"\}, pipeline\)$', pipeline["query"])
    assert re.fullmatch(names, metric)


@pytest.mark.parametrize("program", ["ingest", "expel", "retrier", "sync", "observe"])
def test_routes_of_one_name_in_several_pipelines_are_shown_apart(program):
    targets = [target for panel in PANELS for target in panel.get("targets", [])]
    shows = [(target["expr"], target["legendFormat"]) for target in targets if f"enrich_{program}_" in target["expr"]]
    assert shows
    for expression, legend in shows:
        assert not re.search(rf"enrich_{program}_\w+(?!\w|{{pipeline=)", expression)
        assert all(by.startswith("pipeline, ") for by in re.findall(r"by \(([^)]+)\)", expression))
        assert "{{pipeline}}" in legend
