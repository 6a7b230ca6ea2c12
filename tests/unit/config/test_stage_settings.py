"""A stage's `settings`: which there are, and which values Spark can work with, before a stage begins."""

from typing import Any

import pytest

from tests.unit.config.helpers import changed, lines_of, load_data, told

LARGEST, SMALLEST, ASYNC = "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "asyncProgressTrackingEnabled"
WHOLE = "expected a whole number from 1 to 9223372036854775807"
PARTITIONS = "expected a whole number from 1 to 100000"
INTERVAL = "expected a whole number from 0 to 9223372036854775807"
DURATION = "expected a duration such as 500ms, 8s or 2m"

REFUSED: list[tuple[str, Any, str]] = [
    (LARGEST, 0, f"{WHOLE}, got the number 0"),
    (LARGEST, -1, f"{WHOLE}, got the number -1"),
    (LARGEST, True, f"{WHOLE}, got true"),
    (LARGEST, "many", WHOLE),
    (LARGEST, "", WHOLE),
    (LARGEST, "1e5", WHOLE),
    (LARGEST, 2**63, f"{WHOLE}, got the number {2**63}"),
    (SMALLEST, -1, f"{INTERVAL}, got the number -1"),
    ("minPartitions", 0, f"{PARTITIONS}, got the number 0"),
    ("minPartitions", "100001", PARTITIONS),
    ("maxRecordsPerPartition", 0, f"{WHOLE}, got the number 0"),
    ("maxTriggerDelay", "soon", DURATION),
    ("maxTriggerDelay", "-1s", DURATION),
    ("maxTriggerDelay", "1.5s", DURATION),
    (ASYNC, "yes", "expected true or false"),
    (ASYNC, 1, "expected true or false, got the number 1"),
    ("asyncProgressTrackingCheckpointIntervalMs", "1s", INTERVAL),
    (LARGEST, [1], "expected text, a whole number, true or false, got a list"),
    (
        "spark.memory.fraction",
        0.6,
        "expected text, a whole number, true or false, got the number 0.6: put it in quotes",
    ),
    ("spark.x", None, "expected text, a whole number, true or false, got nothing"),
    (
        "maxOffsetPerTrigger",
        5,
        "neither one of Spark's own spark.* nor an option of a stage; did you mean maxOffsetsPerTrigger?",
    ),
    ("failOnDataLoss", False, "cannot be set here: events that the brokers lost must not go unnoticed"),
    ("kafka.linger.ms", 5, "cannot be set here: settings of the Kafka clients belong to `kafka.client`"),
]

ACCEPTED: list[tuple[str, Any]] = [
    (LARGEST, 1),
    (LARGEST, "20000"),
    (SMALLEST, 0),
    ("minPartitions", 100_000),
    ("maxTriggerDelay", "1s"),
    ("maxTriggerDelay", "2min"),
    ("maxTriggerDelay", 500),
    (ASYNC, False),
    (ASYNC, "false"),
    ("asyncProgressTrackingCheckpointIntervalMs", 0),
    ("spark.memory.fraction", "0.6"),
    ("spark.x", ""),
]


def stage_with(settings: dict[str, Any], **more: Any) -> dict[str, Any]:
    return changed(("stages/enrich/settings", settings), *((f"stages/enrich/{key}", more[key]) for key in more))


@pytest.mark.parametrize(("name", "value", "message"), REFUSED)
def test_what_spark_cannot_work_with_is_refused_at_its_key(name: str, value: Any, message: str) -> None:
    assert told(stage_with({"spark.a": 1, name: value})) == [f"stages.enrich.settings.{name}: {message}"]


@pytest.mark.parametrize(("name", "value"), ACCEPTED)
def test_what_spark_can_work_with_is_accepted(name: str, value: Any) -> None:
    assert load_data(stage_with({name: value}))


def test_each_is_reported_with_its_line_and_a_value_from_the_environment_is_not_shown() -> None:
    text = """\
name: plays
kafka: {bootstrap_servers: 'localhost:9092'}
stages:
  s:
    source: {topic: a, format: string}
    sink: {topic: b}
    settings:
      minPartitions: 0
      maxOffsetsPerTrigger: "${MOST}"
      includeTimestamp: true
"""
    assert [line.partition(" ")[0] for line in lines_of(text, {"MOST": "4711x"})] == ["8:22:", "9:29:", "10:7:"]
    assert "4711" not in str(lines_of(text, {"MOST": "4711x"}))


def test_the_least_of_a_batch_is_at_most_the_most() -> None:
    assert told(stage_with({LARGEST: 10, SMALLEST: "10"})) == []
    assert told(stage_with({LARGEST: 10, SMALLEST: "11"})) == [
        f"stages.enrich.settings.{SMALLEST}: more than {LARGEST}"
    ]
    assert told(stage_with({LARGEST: 0, SMALLEST: 11})) == [
        f"stages.enrich.settings.{LARGEST}: {WHOLE}, got the number 0"
    ]


def test_settings_of_batches_do_not_go_with_realtime_nor_late_progress_with_pins() -> None:
    (problem,) = told(stage_with({LARGEST: 10, "spark.x": 1}, profile="realtime"))
    assert problem.startswith(f"stages.enrich.settings.{LARGEST}: not with profile: realtime")
    (problem,) = told(stage_with({ASYNC: True}, replay="deterministic"))
    assert problem.startswith(f"stages.enrich.settings.{ASYNC}: not with replay: deterministic")
    assert told(stage_with({ASYNC: False}, replay="deterministic")) == []
