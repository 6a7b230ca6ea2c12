"""Settings by profile, each overridable: those of Spark and its Kafka clients for low latency or for throughput.

The measurements behind them are in ADR 0021.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from enrich.base.errors import ConfigError
from enrich.config import KafkaSection, Profile, Replay, Role, Source, Stage
from enrich.config.sections.stages.setting_rules import (
    ASYNC,
    ASYNC_INTERVAL,
    LARGEST,
    QUERY_OPTIONS,
    SMALLEST,
    SOURCE_OPTIONS,
    setting_rules,
)
from enrich.config.sections.stages.settings import as_spark_takes
from enrich.kafka import spark_options

_PRODUCERS: Mapping[Profile, Mapping[str, str]] = {
    Profile.latency: {"linger.ms": "0", "compression.type": "lz4"},
    Profile.throughput: {"linger.ms": "20", "compression.type": "lz4"},
}
_OPTIONS: Mapping[Profile, Mapping[str, str]] = {
    # At most what one core processes in a third of a second: batches stay small after a pause.
    Profile.latency: {LARGEST: "100000", ASYNC: "true", ASYNC_INTERVAL: "1000"},
    # What one core processes in some ten seconds: after a pause the backlog becomes many batches. A drain or a kill
    # repeats at most one of them, and freshness is checked before each.
    Profile.throughput: {
        LARGEST: "2000000",
        SMALLEST: "200000",
        "maxTriggerDelay": "1s",
        ASYNC: "true",
        ASYNC_INTERVAL: "2000",
    },
    # No batches: workers read and write by themselves.
    Profile.realtime: {},
}
# Must exceed the number of partitions that an executor reads; Spark's default is 64.
_CACHED = {"spark.kafka.consumer.cache.capacity": "512"}
_POLLING = "spark.sql.streaming.pollingDelay"
_SESSION: Mapping[Profile, Mapping[str, str]] = {
    # Without events Spark asks the brokers all the time, by default after 10 ms. 25 ms cost less, and show in no
    # event's delay (measured, ADR 0070): there the batch itself counts.
    Profile.latency: {**_CACHED, _POLLING: "25ms"},
    Profile.throughput: {**_CACHED, _POLLING: "100ms"},
    # Spark sees no events, only a query that starts the slots: generating code for it takes longer than running it.
    Profile.realtime: {
        **_CACHED,
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
    },
}
_OF_FILES = (
    "spark.hadoop.",
    "spark.jars",
    "spark.files",
    "spark.kerberos.",
    "spark.driver.extraClassPath",
    "spark.sql.streaming.checkpointFileManagerClass",
)


@dataclass(frozen=True)
class StageSettings:
    """The settings of a stage's profile, overridden by its own `settings`."""

    source: Mapping[str, str]
    query: Mapping[str, str]
    session: Mapping[str, str]


def stage_settings(stage: Stage, where: str = "stage") -> StageSettings:
    """Raises ConfigError for a setting that is unknown here, or that does not go with the stage's other settings."""
    for wrong in setting_rules(stage, ()):
        raise ConfigError(f"`{wrong.path[-1]}`: {wrong.message}", where=f"{where}.settings")
    given = as_spark_takes(stage.settings)
    options = {**_OPTIONS[stage.profile]}
    if stage.replay == Replay.deterministic:
        # A pin belongs to one batch, so a batch's offsets must be in the checkpoint before it runs.
        options = {name: value for name, value in options.items() if name not in QUERY_OPTIONS}
    session = {name: value for name, value in given.items() if name.startswith("spark.")}
    options |= {name: value for name, value in given.items() if name not in session}
    if int(options.get(SMALLEST, 0)) > int(options.get(LARGEST, 0)):
        # Spark refuses it. One of the two is the profile's, and gives way.
        options |= {SMALLEST: given[LARGEST]} if LARGEST in given else {LARGEST: given[SMALLEST]}
    return StageSettings(
        {name: value for name, value in options.items() if name in SOURCE_OPTIONS},
        {name: value for name, value in options.items() if name in QUERY_OPTIONS},
        {**_SESSION[stage.profile], **session},
    )


def source_options(kafka: KafkaSection) -> Mapping[str, str]:
    """Options for the connection of Spark's Kafka source."""
    return {**spark_options(kafka, Role.consumer), "kafka.isolation.level": "read_committed"}


def subscription(source: Source) -> Mapping[str, str]:
    """Which topics Spark reads. Without the anchors it would take a pattern for a part of the name."""
    if source.topic_pattern is not None:
        return {"subscribePattern": f"^(?:{source.topic_pattern})$"}
    return {"subscribe": ",".join(source.all_topics)}


def sink_options(kafka: KafkaSection, profile: Profile) -> Mapping[str, str]:
    """Options for the connection of Spark's Kafka sink. The pipeline's `kafka.client` overrides the profile."""
    own = {f"kafka.{name}": value for name, value in _PRODUCERS[profile].items()}
    return {**own, **spark_options(kafka, Role.producer), "kafka.acks": "all"}


def file_settings(stage: Stage) -> Mapping[str, str]:
    """The stage's own settings that are needed to access its checkpoint, for a session that does nothing else."""
    given = as_spark_takes(stage.settings)
    return {name: value for name, value in given.items() if name.startswith(_OF_FILES)}
