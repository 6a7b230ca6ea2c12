"""Settings by profile, each overridable: what Spark and its Kafka clients are told for low latency or for throughput.

The figures behind them are in ADR 0021.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from enrich.base.errors import ConfigError
from enrich.config import KafkaSection, Profile, Replay, Role, Stage
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
    # At most a third of a second of what one core does: after a pause, batches stay small.
    Profile.latency: {_LARGEST: "100000", _ASYNC: "true", _ASYNC_INTERVAL: "1000"},
    # Some ten seconds of what one core does: after a pause the backlog is many batches, of which a drain or a kill
    # repeats one at most, and freshness is looked at before each.
    Profile.throughput: {
        _LARGEST: "2000000",
        _SMALLEST: "200000",
        "maxTriggerDelay": "1s",
        _ASYNC: "true",
        _ASYNC_INTERVAL: "2000",
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

_REFUSED = {
    "failOnDataLoss": "events that the brokers lost must not go unnoticed",
    "startingOffsets": "use --from at a start without a checkpoint",
    "subscribe": "the topic is that of `source`",
    "checkpointLocation": "the place is that of `checkpoint`",
}


@dataclass(frozen=True)
class StageSettings:
    """What a stage's profile and its own `settings` come to."""

    source: Mapping[str, str]
    query: Mapping[str, str]
    session: Mapping[str, str]


def stage_settings(stage: Stage, where: str = "stage") -> StageSettings:
    """Raises ConfigError for a setting that is not known here, or that Spark cannot do."""
    given = {name: _text(value) for name, value in (stage.settings or {}).items()}
    options = {**_OPTIONS[stage.profile]}
    if stage.replay == Replay.deterministic:
        # A pin belongs to one batch: what the checkpoint says of a batch must be true before it runs.
        options = {name: value for name, value in options.items() if name not in _QUERY_OPTIONS}
    session = _session()
    for name, value in given.items():
        if name.startswith("spark."):
            session[name] = value
        elif name in _SOURCE_OPTIONS | _QUERY_OPTIONS:
            options[name] = value
        else:
            raise ConfigError(
                f"`{name}` cannot be set here{_because(name)}",
                where=f"{where}.settings",
                next_step=f"take {', '.join(sorted(_SOURCE_OPTIONS | _QUERY_OPTIONS))} or Spark's own spark.*",
            )
    smallest = given.get(_SMALLEST, "")
    if _LARGEST not in given and smallest.isdigit() and int(smallest) > int(options[_LARGEST]):
        options[_LARGEST] = smallest  # Spark refuses a bound below it
    if stage.replay == Replay.deterministic and options.get(_ASYNC, "false") == "true":
        raise ConfigError(
            f"{_ASYNC} cannot go with replay: deterministic, whose progress is recorded before each batch",
            where=f"{where}.settings",
        )
    return StageSettings(
        {name: value for name, value in options.items() if name in _SOURCE_OPTIONS},
        {name: value for name, value in options.items() if name in _QUERY_OPTIONS},
        session,
    )


def source_options(kafka: KafkaSection) -> Mapping[str, str]:
    """How Spark's Kafka source connects."""
    return {**spark_options(kafka, Role.consumer), "kafka.isolation.level": "read_committed"}


def sink_options(kafka: KafkaSection, profile: Profile) -> Mapping[str, str]:
    """How Spark's Kafka sink connects. What the pipeline's `kafka.client` says comes before the profile."""
    own = {f"kafka.{name}": value for name, value in _PRODUCERS[profile].items()}
    return {**own, **spark_options(kafka, Role.producer), "kafka.acks": "all"}


def _session() -> dict[str, str]:
    # More consumers than the default of 64 may be open: above the partitions that an executor reads.
    return {"spark.kafka.consumer.cache.capacity": "512"}


def file_settings(stage: Stage) -> Mapping[str, str]:
    """Of the stage's own settings those by which its checkpoint is found, for a session that does no more."""
    given = {name: _text(value) for name, value in (stage.settings or {}).items()}
    return {name: value for name, value in given.items() if name.startswith(_OF_FILES)}


def _because(name: str) -> str:
    if name.startswith("kafka."):
        return ": settings of the Kafka clients stand in `kafka.client`"
    return f": {_REFUSED[name]}" if name in _REFUSED else ""


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
