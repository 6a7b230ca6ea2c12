"""What a running stage and its agent tell: exact metrics, a dashboard that knows them all, logs for machines."""

import json
import re
import time
import urllib.request
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support import dashboard
from tests.support.ports import free_port
from tests.support.stage.world import StageWorld, running_stage
from tests.support.waiting import wait_until

USER = {"table": "users", "key": "user_id", "as": "user", "select": ["plan"]}
LOOKUPS: list[dict[str, Any]] = [
    {**USER, "on_miss": "default", "default": {"plan": "none"}},
    {**USER, "as": "again", "key": "ip", "on_miss": "drop"},
    {**USER, "as": "last", "key": "coalesce(nullif(user_id, 'nobody'), 'ann')", "on_miss": "dlq"},
]
PAYLOAD = "the-payload-nobody-may-see"


def events():
    """Of an hour ago, of ten minutes ago, and without a time."""
    now = datetime.now(UTC)
    long_ago, ago = ((now - timedelta(minutes=minutes)).isoformat(timespec="milliseconds") for minutes in (60, 10))
    return [
        *[{"user_id": "ann", "ip": "bob", "text": PAYLOAD, "ts": long_ago}] * 5,  # through
        *[{"user_id": "nobody", "ip": "bob", "text": PAYLOAD, "ts": long_ago}] * 3,  # through, by default
        *[{"user_id": "ann", "ip": "nobody", "ts": ago}] * 2,  # dropped
        {"user_id": "gone", "ip": "ann"},  # to the DLQ
        PAYLOAD.encode(),  # to the DLQ, and never looked up
    ]


COUNT = 12


def scraped(port):
    """Names of the families with their types, and the samples by name and labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    samples = {
        (sample.name, *(value for name, value in sorted(sample.labels.items()) if name not in ("pipeline", "stage"))): (
            sample.value
        )
        for family in families
        for sample in family.samples
    }
    return {family.name for family in families}, samples


def pages(port):
    """What the program says of itself beside its metrics."""
    answers = {}
    for path in ("/healthz", "/readyz", "/status"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            answers[path] = json.loads(answer.read())
    return answers


class Seen:
    """A stage that ran over `events`, as it was just before it drained."""

    def __init__(self, cluster, folder):
        world = StageWorld(cluster, folder)
        world.users()
        ports = free_port(), free_port()
        world.document["agent"] = {"metrics_port": ports[1]}
        stage = world.stage("enrich", LOOKUPS, metrics_port=ports[0], event_time="ts")
        self.topic = world.topic("enrich.in")
        self.sent_s = time.time()
        world.send(stage, events())
        with running_stage(world, stage, log_format="json") as running:
            world.until(stage, 10)

            def all_counted():
                with suppress(OSError):
                    return scraped(ports[0])[1].get(("enrich_stage_events_total",)) == COUNT

            wait_until(all_counted, what="all events in the metrics")
            self.families, self.samples = scraped(ports[0])
            self.agent_families, self.agent_samples = scraped(ports[1])
            self.looked_s = time.time()
            self.pages = {name: pages(port) for name, port in zip(("stage", "agent"), ports, strict=True)}
            running.tell()
            assert running.end() == 0, running.told()
        self.log = running.told()
        world.close()

    def buckets(self, name):
        """How many events were not above each bound of minutes and more."""
        name = f"enrich_stage_{name}_seconds_bucket"
        return {bound: self.samples[name, bound] for bound in ("300", "1800", "7200", "+Inf")}


@pytest.fixture(scope="module")
def seen(cluster, tmp_path_factory):
    return Seen(cluster, tmp_path_factory.mktemp("metrics"))


@pytest.mark.parametrize("program", ["stage", "agent"])
def test_a_program_that_works_is_healthy_and_ready(seen, program):
    assert seen.pages[program]["/healthz"] == {"healthy": True}
    assert seen.pages[program]["/readyz"] == {"ready": True, "not_ready": {}}


def test_the_status_of_stage_and_agent_says_how_they_are(seen):
    stage, agent = seen.pages["stage"]["/status"], seen.pages["agent"]["/status"]
    assert (stage["stage"], stage["phase"], stage["events"]) == ("enrich", "running", COUNT)
    assert agent["tables"]["users"]["ready"] is True


def test_the_counts_are_exact(seen):
    assert seen.samples["enrich_stage_dropped_events_total",] == 2
    assert seen.samples["enrich_stage_dead_letters_total",] == 2
    found = {
        key[1:]: value
        for key, value in seen.samples.items()
        if key[0] == "enrich_stage_lookups_total" and value  # lookup, on_miss, status, table
    }
    assert found == {
        ("user", "default", "hit", "users"): 7,
        ("user", "default", "miss", "users"): 3,
        ("user", "default", "deleted", "users"): 1,
        ("again", "drop", "hit", "users"): 9,
        ("again", "drop", "miss", "users"): 2,
        ("last", "dlq", "hit", "users"): 10,
        ("last", "dlq", "deleted", "users"): 1,
    }
    assert seen.samples["enrich_stage_events_behind", seen.topic] == 0


def test_the_lags_are_how_old_events_were_by_their_own_times(seen):
    for way in ("in", "out"):
        assert seen.buckets(f"lag_{way}") == {"300": 2, "1800": 4, "7200": 12, "+Inf": 12}
        assert seen.samples[f"enrich_stage_lag_{way}_seconds_count",] == COUNT
        told = seen.pages["stage"]["/status"][f"lag_{way}_s"]
        assert [told[name] == pytest.approx(3600, rel=0.05) for name in ("p50", "p95", "p99")] == [True] * 3
        assert seen.samples[f"enrich_stage_lag_{way}_seconds_sum",] == pytest.approx(8 * 3600 + 2 * 600, rel=0.05)
    assert seen.samples["enrich_stage_process_seconds_count",] == COUNT
    assert 0 <= seen.pages["stage"]["/status"]["process_s"]["p50"] < seen.looked_s - seen.sent_s + 1


def test_the_times_of_batches_are_told(seen):
    batches = seen.samples["enrich_stage_batch_seconds_count",]
    assert batches >= 1
    assert seen.samples["enrich_stage_batch_seconds_bucket", "+Inf"] == batches
    assert seen.samples["enrich_stage_batch_part_seconds_total", "addBatch"] > 0
    assert seen.samples["enrich_stage_lookup_seconds_total",] > 0


def test_tables_and_memory_are_told(seen):
    assert 0 <= seen.samples["enrich_stage_table_age_seconds", "users"] < 60
    (worker,) = (value for key, value in seen.samples.items() if key[0] == "enrich_stage_worker_memory_bytes")
    assert 1 << 20 < worker < 1 << 31
    for process in ("python", "jvm"):
        assert 1 << 20 < seen.samples["enrich_stage_driver_memory_bytes", process] < 1 << 34


def test_the_dashboard_shows_every_metric_of_stages_and_agents_and_none_that_there_is_not(seen):
    # This stage has no routes, which the unit test of the dashboard looks at.
    named = (dashboard.shown("stage") | dashboard.shown("agent")) - {"enrich_stage_routed_events_total"}
    families = seen.families | seen.agent_families
    assert {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in named} == families
    assert named <= {key[0] for key in (*seen.samples, *seen.agent_samples)}
    labels = dashboard.groups("stage") | dashboard.groups("agent")
    assert labels <= {"stage", "lookup", "table", "on_miss", "status", "part", "route"}


def test_the_log_is_json_lines_without_payload(seen):
    lines = seen.log.splitlines()
    # What the JVM says before Spark has a session cannot be helped.
    first = next(number for number, line in enumerate(lines) if line.startswith("{"))
    other = [line for line in lines[first:] if not line.startswith("{")]
    assert other == []
    told = [json.loads(line) for line in lines[first:]]
    ours, sparks = {"time", "level", "logger", "message"}, {"ts", "level", "logger", "msg"}
    assert all(ours <= set(line) or sparks <= set(line) for line in told)
    (drained,) = [line for line in told if line.get("message") == "the stage has drained"]
    assert (drained["events"], drained["dropped"], drained["dead_letters"]) == (COUNT, 2, 2)
    assert PAYLOAD not in seen.log
