"""Settings by profile, each overridable: those of Spark and its Kafka clients for low latency or for throughput.

The measurements behind them are in ADR 0021.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from enrich.base.errors import ConfigError
from enrich.config import KafkaSection, Profile, Replay, Role, Source, Stage
from enrich.config.sections.stages.settings import as_spark_takes
from enrich.kafka import spark_options

_LARGEST, _SMALLEST = "maxOffsetsPerTrigger", "minOffsetsPerTrigger"
_SOURCE_OPTIONS = frozenset({"minPartitions", "maxRecordsPerPartition", _LARGEST, _SMALLEST, "maxTriggerDelay"})
_ASYNC, _ASYNC_INTERVAL = "asyncProgressTrackingEnabled", "asyncProgressTrackingCheckpointIntervalMs"
_QUERY_OPTIONS = frozenset({_ASYNC, _ASYNC_INTERVAL})

_PRODUCERS: Mapping[Profile, Mapping[str, str]] = {
    Profile.latency: {"linger.ms": "0", "compression.type": "lz4"},
    Profile.throughput: {"linger.ms": "20", "compression.type": "lz4"},
}
_OPTIONS: Mapping[Profile, Mapping[str, str]] = {
    # At most what one core processes in a third of a second: batches stay small after a pause.
    Profile.latency: {_LARGEST: "100000", _ASYNC: "true", _ASYNC_INTERVAL: "1000"},
    # What one core processes in some ten seconds: after a pause the backlog becomes many batches. A drain or a kill
    # repeats at most one of them, and freshness is checked before each.
    Profile.throughput: {
        _LARGEST: "2000000",
        _SMALLEST: "200000",
        "maxTriggerDelay": "1s",
        _ASYNC: "true",
        _ASYNC_INTERVAL: "2000",
    },
    # No batches: workers read and write by themselves.
    Profile.realtime: {},
}
_OF_FILES = (
    "spark.hadoop.",
    "spark.jars",
    "spark.files",
    "spark.kerberos.",
    "spark.driver.extraClassPath",
    "spark.sql.streaming.checkpointFileManagerClass",
)

_REFUSED = {
    "failOnDataLoss": "events that the brokers lost must not go unnoticed",
    "startingOffsets": "use --from at a start without a checkpoint",
    "subscribe": "the topics are set by `source`",
    "subscribePattern": "the topics are set by `source`",
    "checkpointLocation": "the path is set by `checkpoint`",
}


@dataclass(frozen=True)
class StageSettings:
    """The settings of a stage's profile, overridden by its own `settings`."""

    source: Mapping[str, str]
    query: Mapping[str, str]
    session: Mapping[str, str]


def stage_settings(stage: Stage, where: str = "stage") -> StageSettings:
    """Raises ConfigError for a setting that is unknown here, or that does not go with the stage's other settings."""
    given = as_spark_takes(stage.settings)
    options = {**_OPTIONS[stage.profile]}
    if stage.replay == Replay.deterministic:
        # A pin belongs to one batch, so a batch's offsets must be in the checkpoint before it runs.
        options = {name: value for name, value in options.items() if name not in _QUERY_OPTIONS}
    session = _session()
    for name, value in given.items():
        if name.startswith("spark."):
            session[name] = value
        elif stage.profile == Profile.realtime:
            raise ConfigError(
                f"`{name}` cannot be set with profile: realtime, which has no batches",
                where=f"{where}.settings",
                next_step="use Spark's own spark.*, or profile: latency",
            )
        elif name in _SOURCE_OPTIONS | _QUERY_OPTIONS:
            options[name] = value
        else:
            raise ConfigError(
                f"`{name}` cannot be set here{_because(name)}",
                where=f"{where}.settings",
                next_step=f"use {', '.join(sorted(_SOURCE_OPTIONS | _QUERY_OPTIONS))} or Spark's own spark.*",
            )
    smallest = given.get(_SMALLEST, "")
    if _LARGEST not in given and smallest.isdigit() and int(smallest) > int(options[_LARGEST]):
        options[_LARGEST] = smallest  # Spark refuses a maximum below the minimum
    if stage.replay == Replay.deterministic and options.get(_ASYNC, "false") == "true":
        raise ConfigError(
            f"{_ASYNC} cannot be used with replay: deterministic, which records progress before each batch",
            where=f"{where}.settings",
        )
    return StageSettings(
        {name: value for name, value in options.items() if name in _SOURCE_OPTIONS},
        {name: value for name, value in options.items() if name in _QUERY_OPTIONS},
        session,
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


def _session() -> dict[str, str]:
    # Must exceed the number of partitions that an executor reads; Spark's default is 64.
    return {"spark.kafka.consumer.cache.capacity": "512"}


def file_settings(stage: Stage) -> Mapping[str, str]:
    """The stage's own settings that are needed to access its checkpoint, for a session that does nothing else."""
    given = as_spark_takes(stage.settings)
    return {name: value for name, value in given.items() if name.startswith(_OF_FILES)}


def _because(name: str) -> str:
    if name.startswith("kafka."):
        return ": settings of the Kafka clients belong to `kafka.client`"
    return f": {_REFUSED[name]}" if name in _REFUSED else ""
