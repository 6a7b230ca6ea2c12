"""The difference between the actual and the wanted topics, as steps that a person can judge."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from enrich.admin.cluster import Cluster
from enrich.admin.rights import lacks
from enrich.admin.topics.actual import Actual, actual_topics, largest_by_default
from enrich.admin.topics.notes import Note, read_notes
from enrich.admin.topics.uses import Use
from enrich.admin.topics.wanted import DEFAULT_PARTITIONS, Wanted, made_alike

_LESS = {
    "min.compaction.lag.ms": "less history is kept: it may be that of another pipeline with this topic",
    "delete.retention.ms": "hosts may be away for a shorter time, those of other pipelines with this topic too",
    "retention.ms": "records are removed sooner, also for other pipelines with this topic",
}
"""What it means if such a setting falls."""
ONE_COPY = "give it `replication: 3` under `topics`: senders are told that an event is safe once one copy is written"


class Kind(StrEnum):
    create = "create"
    set = "set"
    partitions = "partitions"
    record = "record"
    refused = "refused"


@dataclass(frozen=True)
class Step:
    """One change of one topic. `what` is a setting's name, `partitions`, `replication` or `format`."""

    kind: Kind
    topic: str
    what: str
    before: str | None
    after: str | None
    note: str | None = None
    """Why it is refused, or what it means for the existing records."""


@dataclass(frozen=True)
class Plan:
    """Everything that `apply` would do, and what it must refuse."""

    steps: tuple[Step, ...]
    topics: int

    @property
    def to_do(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.kind is not Kind.refused)

    @property
    def refused(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.kind is Kind.refused)

    @property
    def name(self) -> str:
        """A hash of all steps: it differs if anything in the plan differs, so that only what was shown is done."""
        steps = json.dumps([asdict(step) for step in self.steps], sort_keys=True)
        return hashlib.sha256(steps.encode()).hexdigest()[:12]


def plan_for(cluster: Cluster, wanted: Mapping[str, Wanted]) -> Plan:
    actual = actual_topics(cluster, needed(wanted))
    notes = read_notes(cluster)
    steps = [
        step
        for name, topic in as_others_are(cluster, wanted, actual).items()
        for step in _steps(topic, actual.get(name), notes.get(name), cluster.brokers)
    ]
    return Plan(tuple(steps), len(wanted))


def with_followed(wanted: Mapping[str, Wanted], name: str) -> dict[str, Wanted]:
    """The topic, those that it follows, and those that they follow."""
    chosen: dict[str, Wanted] = {}
    while name in wanted and name not in chosen:
        chosen[name] = wanted[name]
        alike = wanted[name].alike
        name = name if alike is None else alike.topic
    return chosen


def needed(wanted: Mapping[str, Wanted]) -> list[str]:
    """The names of the topics, and of those that they follow."""
    followed = [topic.alike.topic for topic in wanted.values() if topic.alike is not None]
    return list(dict.fromkeys([*wanted, *followed]))


def as_others_are(cluster: Cluster, wanted: Mapping[str, Wanted], actual: Mapping[str, Actual]) -> dict[str, Wanted]:
    """With what follows from how other topics are on the brokers, or will be once they are made."""
    missing = [each.alike for each in wanted.values() if each.alike is not None and each.alike.topic not in actual]
    by_default = largest_by_default(cluster) if any(each.wishes.max_message is None for each in missing) else None
    found: dict[str, Wanted] = {}
    for name in wanted:
        _find(name, wanted, actual, by_default, found)
    return {name: found[name] for name in wanted}


def _find(
    name: str,
    wanted: Mapping[str, Wanted],
    actual: Mapping[str, Actual],
    by_default: int | None,
    found: dict[str, Wanted],
) -> None:
    """A topic that is followed may itself follow another one: the DLQ of a route that a second route reads."""
    if name in found or name not in wanted:
        return
    topic = found[name] = wanted[name]  # at once: two may follow each other
    if topic.alike is not None:
        _find(topic.alike.topic, wanted, actual, by_default, found)
        found[name] = _as_another_is(topic, found.get(topic.alike.topic), actual.get(topic.alike.topic), by_default)


def _as_another_is(wanted: Wanted, followed: Wanted | None, other: Actual | None, by_default: int | None) -> Wanted:
    largest = None if other is None else other.settings.get("max.message.bytes")
    now = by_default if other is None else None if largest is None else int(largest)
    if wanted.alike is not None and followed is not None and "max.message.bytes" in followed.at_least:
        will_be = max(int(followed.settings["max.message.bytes"]), 0 if other is None else now or 0)
        wishes = wanted.alike.wishes.model_copy(update={"max_message": will_be})
        wanted = replace(wanted, alike=replace(wanted.alike, wishes=wishes))
    return made_alike(wanted, None if other is None else len(other.partitions), now)


def _steps(wanted: Wanted, actual: Actual | None, note: Note | None, brokers: int) -> Iterator[Step]:
    if actual is None:
        yield from _new(wanted, brokers)
        return
    if actual.settings_error is not None:
        raise lacks("DESCRIBE_CONFIGS", f"topic {wanted.name}") from actual.settings_error
    yield from _partitions(wanted, actual)
    if wanted.wishes.replication is not None and wanted.wishes.replication != actual.replication:
        why = "use Kafka's own tool, kafka-reassign-partitions, to move replicas: it can throttle the copying"
        before, after = str(actual.replication), str(wanted.wishes.replication)
        yield Step(Kind.refused, wanted.name, "replication", before, after, why)
    for name, value in wanted.settings.items():
        now = actual.settings.get(name)
        if name in wanted.as_made:
            continue
        if not _same(now, value) and not (name in wanted.at_least and is_enough(now, value)):
            yield Step(Kind.set, wanted.name, name, now, value, _meaning(name, now, value))
    if wanted.format is not None and (note is None or note.topic_id != actual.topic_id):
        yield Step(Kind.record, wanted.name, "format", None, wanted.format)
    elif wanted.format is not None and note is not None and note.format != wanted.format:
        why = "the existing records have the recorded format: `enrich topics copy` makes a topic in another format"
        yield Step(Kind.refused, wanted.name, "format", note.format, wanted.format, why)


def _new(wanted: Wanted, brokers: int) -> Iterator[Step]:
    copies = wanted.wishes.replication
    if copies is not None and copies > brokers:
        why = f"there are {brokers} brokers"
        yield Step(Kind.refused, wanted.name, "replication", None, str(copies), why)
        return
    partitions = str(wanted.wishes.partitions or DEFAULT_PARTITIONS)
    note = ", ".join(wanted.used_by)
    if lacks_copies(wanted, brokers):
        note += f"; {ONE_COPY}"
    yield Step(Kind.create, wanted.name, "partitions", None, partitions, note)
    if copies is not None:
        yield Step(Kind.create, wanted.name, "replication", None, str(copies))
    for name, value in wanted.settings.items():
        yield Step(Kind.create, wanted.name, name, None, value)
    if wanted.format is not None:
        yield Step(Kind.record, wanted.name, "format", None, wanted.format)


def _partitions(wanted: Wanted, actual: Actual) -> Iterator[Step]:
    before, after = len(actual.partitions), wanted.wishes.partitions
    if after is None or after == before or ("partitions" in wanted.at_least and after < before):
        return
    change = wanted.name, "partitions", str(before), str(after)
    if after < before:
        yield Step(Kind.refused, *change, "Kafka cannot remove partitions")
    elif wanted.use is not Use.events or wanted.is_compacted:
        why = "new records of a key would go to another partition than its older ones: `enrich topics rekey` makes a "
        why += "new topic"
        yield Step(Kind.refused, *change, why)
    else:
        yield Step(Kind.partitions, *change, "events of a key may be out of order for a while")


def is_enough(now: str | None, least: str) -> bool:
    """Whether a setting that may be greater is at least so great; -1 stands for no limit."""
    return now is not None and (int(now) == -1 or int(now) >= int(least))


def lacks_copies(wanted: Wanted, brokers: int) -> bool:
    """Whether what somebody was told to be safe may be so with one copy, though nobody has wished for that."""
    return wanted.is_acknowledged and brokers > 1 and "min.insync.replicas" not in wanted.settings


def _same(before: str | None, after: str) -> bool:
    if before == after:
        return True
    if before is None:
        return False
    # `compact, delete` equals `delete,compact`, and 0.10 equals 0.1.
    if {word.strip() for word in before.split(",")} == {word.strip() for word in after.split(",")}:
        return True
    try:
        return float(before) == float(after)
    except ValueError:
        return False


def _meaning(name: str, before: str | None, after: str) -> str | None:
    if name == "cleanup.policy" and "delete" in (before or "") and "delete" not in after:
        return "the newest record of each key stays for ever, older ones are removed"
    if name == "cleanup.policy" and "delete" in after and "delete" not in (before or ""):
        return "records are removed by age, even the newest of a key"
    # What others need is in their configurations.
    if name in _LESS and before not in (None, after) and (before == "-1" or -1 < int(after) < int(before or 0)):
        return _LESS[name]
    return None
