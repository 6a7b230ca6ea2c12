"""The topics that a pipeline needs and their settings, derived from the configuration."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from enrich.admin.topics.uses import NO_TABLES, READS, WRITES, Right, Use, Used, uses_of
from enrich.config import EVERY_TOPIC, Cleanup, Pipeline, TopicWishes
from enrich.kafka.topic_settings import is_compacted
from enrich.tally.writing import TOPIC_SETTINGS
from enrich.verdict.topic import settings_of as verdict_settings

DEFAULT_PARTITIONS = 4
_SIZE = 1 << 30
_STALENESS, _DOWNTIME = timedelta(days=1), timedelta(days=1)
_SMALLEST_SEGMENT, _LARGEST_SEGMENT = 8 << 20, 1 << 30
# The active segment is never compacted: with ten segments that is a tenth of a partition.
_SEGMENTS = 10
_LONGEST_SEGMENT = timedelta(days=7)
_HISTORY_MARGIN, _LEAST_MARGIN = 0.1, timedelta(minutes=10)
# A topic with a smaller largest record needs no more than the brokers' default for the headers that are added.
_ROOMY, _DEFAULT_MESSAGE = 1_000_000, 1_048_588
_HEADERS = 64 << 10
# Readers rely on only half of delete.retention.ms: see `TopicSettings.safe_absence_ms`.
_RETENTIONS_PER_DOWNTIME = 2


@dataclass(frozen=True)
class Alike:
    """The topic whose records another one must take, with headers of ours, and what people wish for it."""

    topic: str
    wishes: TopicWishes
    is_partitioned_alike: bool


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
    at_least: frozenset[str] = frozenset()
    """The settings that may also be greater, and `partitions`."""
    as_made: frozenset[str] = frozenset()
    """The settings that it gets if it has to be made, and keeps as they are if it is there."""
    alike: "Alike | None" = None
    is_acknowledged: bool = False
    """Somebody outside was told that its records are safe."""

    @property
    def is_compacted(self) -> bool:
        return is_compacted(self.settings)


def wanted_topics(
    pipeline: Pipeline, existing: Collection[str] = (), of_tables: Mapping[str, Collection[str]] = NO_TABLES
) -> dict[str, Wanted]:
    """All topics that the configuration names, by name, and of the existing ones those that its patterns match, and
    those of tables: see `uses_of`."""
    by_topic: dict[str, list[Used]] = {}
    for used in uses_of(pipeline, existing, of_tables):
        by_topic.setdefault(used.topic, []).append(used)
    return {name: _wanted(pipeline, name, uses) for name, uses in sorted(by_topic.items())}


def wanted_rows(pipeline: Pipeline, topic: str, by: str) -> Wanted:
    """A topic for rows, whose name is not in the configuration but follows from it."""
    return _wanted(pipeline, topic, [Used(topic, Use.rows, by, WRITES | READS)])


def wishes_for(pipeline: Pipeline, topic: str) -> TopicWishes:
    nothing = TopicWishes()
    return pipeline.topics.get(topic, nothing).over(pipeline.topics.get(EVERY_TOPIC, nothing))


def _wanted(pipeline: Pipeline, name: str, uses: list[Used]) -> Wanted:
    if all(used.is_only_found for used in uses) and name not in pipeline.topics:
        rights = frozenset[Right]().union(*(used.rights for used in uses))
        return Wanted(name, uses[0].use, tuple(used.by for used in uses), {}, rights)
    wishes = wishes_for(pipeline, name)
    use = next(kind for kind in Use if any(used.use is kind for used in uses))
    if use in (Use.holds, Use.states, Use.verdicts, Use.ratings):
        wishes = wishes.model_copy(update={"partitions": 1})
    form = next((used.format for kind in Use for used in uses if used.use is kind and used.format), None)
    return Wanted(
        name,
        use,
        tuple(used.by for used in uses),
        _settings(use, uses, wishes),
        frozenset[Right]().union(*(used.rights for used in uses)),
        wishes,
        form,
        frozenset({"retention.ms"}) if any(used.kept for used in uses) else frozenset(),
        _as_made(use, uses, wishes),
        _alike(pipeline, uses),
        any(used.is_acknowledged for used in uses),
    )


def _as_made(use: Use, uses: list[Used], wishes: TopicWishes) -> frozenset[str]:
    """Events that others write may be the rows of their table: by age they would be deleted."""
    is_only_read = use is Use.events and not any(Right.write in used.rights for used in uses)
    return frozenset({"cleanup.policy"}) if is_only_read and wishes.cleanup is None else frozenset()


def _alike(pipeline: Pipeline, uses: list[Used]) -> Alike | None:
    for used in uses:
        if used.takes_all_of is not None:
            return Alike(used.takes_all_of, wishes_for(pipeline, used.takes_all_of), used.is_partitioned_alike)
    return None


def made_alike(wanted: Wanted, partitions: int | None, largest: int | None) -> Wanted:
    """What a topic needs that takes all records of another one. `partitions`, `largest`: how many that one has now, and
    its largest record in bytes; None if it does not exist, or that is not known."""
    if wanted.alike is None:
        return wanted
    other, wishes = wanted.alike.wishes, wanted.wishes
    settings, at_least = dict(wanted.settings), {*wanted.at_least}
    largest = other.max_message or largest or _DEFAULT_MESSAGE
    if largest >= _ROOMY:
        settings["max.message.bytes"] = str(max(largest + _HEADERS, wishes.max_message or 0))
        at_least.add("max.message.bytes")
    if wanted.alike.is_partitioned_alike:
        count = max(partitions or 0, other.partitions or 0) or DEFAULT_PARTITIONS
        wishes = wishes.model_copy(update={"partitions": count})
        at_least.add("partitions")
    return replace(wanted, settings=settings, at_least=frozenset(at_least), wishes=wishes)


def _settings(use: Use, uses: list[Used], wishes: TopicWishes) -> dict[str, str]:
    settings = {"unclean.leader.election.enable": "false"}
    if use is Use.verdicts:
        return settings | verdict_settings(max(used.kept or timedelta() for used in uses)) | _replicas(wishes)
    policy = wishes.cleanup or (Cleanup.delete if use in (Use.events, Use.tallies) else Cleanup.compact)
    if wishes.cleanup is not None or not any(used.any_policy for used in uses):
        settings["cleanup.policy"] = policy.value
    if policy is not Cleanup.delete:
        settings |= _of_compacted(max(used.history for used in uses), wishes)
    if use is Use.tallies:
        settings["message.timestamp.type"] = TOPIC_SETTINGS["message.timestamp.type"]
    kept = [duration for duration in (wishes.retention, *(used.kept for used in uses)) if duration is not None]
    if kept and policy is not Cleanup.compact:
        settings["retention.ms"] = _milliseconds(max(kept))
    if wishes.max_message is not None:
        settings["max.message.bytes"] = str(wishes.max_message)
    return settings | _replicas(wishes)


def _replicas(wishes: TopicWishes) -> dict[str, str]:
    if wishes.min_insync_replicas is not None:
        return {"min.insync.replicas": str(wishes.min_insync_replicas)}
    if wishes.replication is not None:
        return {"min.insync.replicas": str(max(1, wishes.replication - 1))}
    return {}


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
