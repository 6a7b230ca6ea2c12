"""Profiles: each setting can be replaced, and what cannot work is refused with the reason."""

import pytest

from enrich.base.errors import ConfigError
from enrich.config import KafkaSection, Stage
from enrich.stage.spark.profiles import file_settings, sink_options, source_options, stage_settings

STAGE = {
    "source": {"topic": "in", "format": "json", "schema": "a string"},
    "sink": {"topic": "out"},
    "checkpoint": "/c",
}


def settings(**section):
    return stage_settings(Stage.model_validate({**STAGE, **section}), "stages.enrich")


@pytest.mark.parametrize("profile", ["latency", "throughput"])
def test_every_setting_of_a_profile_can_be_replaced(profile):
    usual = settings(profile=profile)
    for name in {**usual.source, **usual.query, **usual.session}:
        other = "false" if name == "asyncProgressTrackingEnabled" else "7"
        replaced = settings(profile=profile, settings={name: other})
        assert {**replaced.source, **replaced.query, **replaced.session}[name] == other, name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("failOnDataLoss", "must not go unnoticed"),
        ("startingOffsets", "--from"),
        ("kafka.linger.ms", "kafka.client"),
        ("subscribe", "`source`"),
        ("nonsense", "maxOffsetsPerTrigger"),
    ],
)
def test_settings_that_would_break_a_promise_are_refused_with_the_reason(name, says):
    with pytest.raises(ConfigError) as raised:
        settings(settings={name: "x"})
    assert says in str(raised.value)
    assert raised.value.where == "stages.enrich.settings"


def test_deterministic_replay_records_progress_synchronously_and_refuses_otherwise():
    assert settings(replay="deterministic").query == {}
    with pytest.raises(ConfigError, match="replay: deterministic"):
        settings(replay="deterministic", settings={"asyncProgressTrackingEnabled": True})


def test_clients_keep_the_promises_whatever_the_users_settings_are():
    kafka = KafkaSection.model_validate(
        {"bootstrap_servers": "h:1", "client": {"linger.ms": 3, "fetch.min.bytes": 9, "compression.type": "zstd"}}
    )
    source, sink = source_options(kafka), sink_options(kafka, Stage.model_validate(STAGE).profile)
    assert (source["kafka.isolation.level"], source["kafka.fetch.min.bytes"]) == ("read_committed", "9")
    assert (sink["kafka.acks"], sink["kafka.linger.ms"], sink["kafka.compression.type"]) == ("all", "3", "zstd")
    assert "kafka.linger.ms" not in source


def test_what_the_checkpoint_is_found_by_is_told_apart_from_what_a_stage_runs_with():
    own = {"spark.hadoop.fs.s3a.endpoint": "http://s", "spark.jars.packages": "g:a:1", "spark.executor.memory": "4g"}
    stage = Stage.model_validate({**STAGE, "settings": {**own, "minPartitions": 4}})
    assert set(file_settings(stage)) == {"spark.hadoop.fs.s3a.endpoint", "spark.jars.packages"}


@pytest.mark.parametrize("profile", ["latency", "throughput"])
def test_a_batch_has_a_bound_whatever_the_backlog_is(profile):
    usual = int(settings(profile=profile).source["maxOffsetsPerTrigger"])
    assert usual <= 2_000_000
    more = settings(profile=profile, settings={"minOffsetsPerTrigger": usual + 1})
    assert int(more.source["maxOffsetsPerTrigger"]) >= usual + 1


def test_the_least_of_a_batch_that_a_profile_sets_gives_way_to_the_most_that_is_given():
    fewer = settings(profile="throughput", settings={"maxOffsetsPerTrigger": 20_000}).source
    assert (fewer["minOffsetsPerTrigger"], fewer["maxOffsetsPerTrigger"]) == ("20000", "20000")
    with pytest.raises(ConfigError, match="more than maxOffsetsPerTrigger"):
        settings(settings={"maxOffsetsPerTrigger": 20_000, "minOffsetsPerTrigger": "20001"})
