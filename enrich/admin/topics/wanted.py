"""The topics that a pipeline needs and their settings, derived from the configuration."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from enrich.config import EVERY_TOPIC, Cleanup, Compaction, Invalid, Pipeline, TopicWishes, retry_topics

DEFAULT_PARTITIONS = 4
_SIZE = 1 << 30
_STALENESS, _DOWNTIME = timedelta(days=1), timedelta(days=1)
_SMALLEST_SEGMENT, _LARGEST_SEGMENT = 8 << 20, 1 << 30
# The active segment is never compacted: with ten segments that is a tenth of a partition.
_SEGMENTS = 10
_LONGEST_SEGMENT = timedelta(days=7)
_HISTORY_MARGIN, _LEAST_MARGIN = 0.1, timedelta(minutes=10)
# Readers rely on only half of delete.retention.ms: see `TopicSettings.safe_absence_ms`.
_RETENTIONS_PER_DOWNTIME = 2


class Use(StrEnum):
    """What a topic is for. If it has several uses, the first in this order decides."""

    table = "table"
    rows = "rows"
    letters = "letters"
    events = "events"


class Right(StrEnum):
    """A right that this user needs on a topic, as Kafka names it."""

    read = "READ"
    write = "WRITE"
    describe = "DESCRIBE"
    describe_configs = "DESCRIBE_CONFIGS"


@dataclass(frozen=True)
class Wanted:
    """One topic as it should be."""

    name: str
    use: Use
    used_by: tuple[str, ...]
    settings: Mapping[str, str]
    rights: frozenset[Right]
    wishes: TopicWishes = field(default_factory=TopicWishes)
    format: str | None = None
    """How its values are encoded, if the configuration says so."""

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.settings.get("cleanup.policy", "")


@dataclass(frozen=True)
class _Used:
    topic: str
    use: Use
    by: str
    rights: frozenset[Right]
    format: str | None = None
    history: timedelta = timedelta()
    any_policy: bool = False


def wanted_topics(pipeline: Pipeline) -> dict[str, Wanted]:
    """All topics that the configuration names, by name."""
    by_topic: dict[str, list[_Used]] = {}
    for used in _uses(pipeline):
        by_topic.setdefault(used.topic, []).append(used)
    return {name: _wanted(name, uses, wishes_for(pipeline, name)) for name, uses in sorted(by_topic.items())}


def wishes_for(pipeline: Pipeline, topic: str) -> TopicWishes:
    nothing = TopicWishes()
    return pipeline.topics.get(topic, nothing).over(pipeline.topics.get(EVERY_TOPIC, nothing))


def _uses(pipeline: Pipeline) -> Iterator[_Used]:
    reads = frozenset({Right.read, Right.describe, Right.describe_configs})
    # DESCRIBE_CONFIGS because the settings contain the largest record size.
    writes = frozenset({Right.write, Right.describe, Right.describe_configs})
    for name, table in pipeline.tables.items():
        if table.topic is not None:
            any_policy = table.compaction is Compaction.any
            form = _format(str(table.format), table.framing)
            yield _Used(table.topic, Use.table, f"table {name}", reads, form, table.history, any_policy)
    for name, stage in pipeline.stages.items():
        source = _format(str(stage.source.format), stage.source.framing)
        yield _Used(stage.source.topic, Use.events, f"source of stage {name}", reads, source)
        yield _Used(stage.sink.topic, Use.events, f"sink of stage {name}", writes, str(stage.sink.format))
        if stage.dlq is not None:
            yield _Used(stage.dlq, Use.letters, f"dead letters of stage {name}", writes)
        if stage.writeback is not None:
            yield _Used(stage.writeback.topic, Use.rows, f"write-back of stage {name}", writes)
    for name, entry in pipeline.ingest.items():
        yield _Used(entry.topic, Use.events, f"ingest {name}", writes, _format(str(entry.format), entry.framing))
        if entry.invalid is Invalid.dlq:
            yield _Used(entry.dlq, Use.letters, f"dead letters of ingest {name}", writes)
    if pipeline.sync is not None:
        for name, route in pipeline.sync.writeback.items():
            form = _format(str(route.format), route.framing)
            yield _Used(route.topic, Use.rows, f"write-back route {name}", reads, form)
            yield _Used(route.dlq, Use.letters, f"dead letters of route {name}", writes)
            for topic, _ in retry_topics(pipeline.name, name, route.retries):
                yield _Used(topic, Use.events, f"retries of route {name}", reads | writes, form)
        for name, origin in pipeline.sync.sources.items():
            form = _format(str(origin.format), origin.framing)
            yield _Used(origin.topic, Use.rows, f"source route {name}", reads | writes, form)


def _format(name: str, framing: object) -> str:
    return name if framing is None else f"{name} ({framing})"


def _wanted(name: str, uses: list[_Used], wishes: TopicWishes) -> Wanted:
    use = next(kind for kind in Use if any(used.use is kind for used in uses))
    form = next((used.format for kind in Use for used in uses if used.use is kind and used.format), None)
    return Wanted(
        name,
        use,
        tuple(used.by for used in uses),
        _settings(use, uses, wishes),
        frozenset[Right]().union(*(used.rights for used in uses)),
        wishes,
        form,
    )


def _settings(use: Use, uses: list[_Used], wishes: TopicWishes) -> dict[str, str]:
    settings = {"unclean.leader.election.enable": "false"}
    policy = wishes.cleanup or (Cleanup.delete if use is Use.events else Cleanup.compact)
    if wishes.cleanup is not None or not any(used.any_policy for used in uses):
        settings["cleanup.policy"] = policy.value
    if policy is not Cleanup.delete:
        settings |= _of_compacted(max(used.history for used in uses), wishes)
    if wishes.retention is not None and policy is not Cleanup.compact:
        settings["retention.ms"] = _milliseconds(wishes.retention)
    if wishes.max_message is not None:
        settings["max.message.bytes"] = str(wishes.max_message)
    if wishes.min_insync_replicas is not None:
        settings["min.insync.replicas"] = str(wishes.min_insync_replicas)
    elif wishes.replication is not None:
        settings["min.insync.replicas"] = str(max(1, wishes.replication - 1))
    return settings


def _of_compacted(history: timedelta, wishes: TopicWishes) -> dict[str, str]:
    staleness, downtime = wishes.staleness or _STALENESS, wishes.downtime or _DOWNTIME
    partitions = wishes.partitions or DEFAULT_PARTITIONS
    # A history is complete only as far back as compaction cannot have removed anything.
    lag = history + max(history * _HISTORY_MARGIN, _LEAST_MARGIN) if history else timedelta()
    segment = min(max((wishes.size or _SIZE) // partitions // _SEGMENTS, _SMALLEST_SEGMENT), _LARGEST_SEGMENT)
    return {
        "min.compaction.lag.ms": _milliseconds(lag),
        "max.compaction.lag.ms": _milliseconds(max(staleness, lag * 2)),
        "min.cleanable.dirty.ratio": _dirty_ratio(staleness),
        "segment.ms": _milliseconds(min(max(staleness, timedelta(seconds=1)), _LONGEST_SEGMENT)),
        "segment.bytes": str(segment),
        "delete.retention.ms": _milliseconds(downtime * _RETENTIONS_PER_DOWNTIME),
    }


def _dirty_ratio(staleness: timedelta) -> str:
    """The share of superseded records that a partition may have: a smaller one makes the brokers rewrite more."""
    if staleness <= timedelta(hours=1):
        return "0.1"
    return "0.3" if staleness <= timedelta(days=1) else "0.5"


def _milliseconds(duration: timedelta) -> str:
    return str(duration // timedelta(milliseconds=1))
