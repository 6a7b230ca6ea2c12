"""One audit: what can be read and proves something, the Spark job over it, and each minute beside its verdict."""

import logging
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import cast

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from enrich.admin.cluster import Cluster
from enrich.admin.observing import reports_since, verdicts_of
from enrich.admin.rights import needs
from enrich.audit.comparing import Compared, compared
from enrich.audit.evidence import Mark, WayEvidence, evidence_of
from enrich.audit.judging import Claims, Judge
from enrich.audit.scanning import MOST_MARKS, Bit, EventTime, Offsets, Part, minutes
from enrich.base.errors import BadRecord, ConfigError
from enrich.config import Format, Pipeline
from enrich.kafka import new_group_consumer
from enrich.kafka.groups import committed
from enrich.kafka.topic_settings import is_compacted
from enrich.stage.plan.expressions import Expression, Expressions
from enrich.stage.spark.profiles import source_options
from enrich.stage.spark.session import command_session
from enrich.tally import MergedTally, Node, NodeKind, Origins
from enrich.tally.origins import Range
from enrich.verdict import MinuteVerdict
from enrich.verdict.days import PER_DAY
from enrich.verdict.minute import range_of
from enrich.verdict.ways import ways_of

_log = logging.getLogger(__name__)

_MARGIN_MS = 600_000
"""Clocks differ: records of a day are looked for so much earlier and later."""
_DAY_MS = 86_400_000
_DATING = (NodeKind.ingest, NodeKind.stage)
"""These say when events happened. Where events come in at another node, verdicts have them in the minute in which that
node told of them: there is nothing to compare."""


@dataclass(frozen=True)
class AuditOptions:
    day: date
    route: str | None = None
    """Only ways with this in their name."""
    delivered: Path | None = None
    """A file of origins that the receivers have."""
    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Audit:
    found: Iterator[Compared]
    skipped: Mapping[str, str]
    """Ways that cannot be audited, and why."""


@contextmanager
def run_audit(pipeline: Pipeline, options: AuditOptions) -> Iterator[Audit]:
    """What it has found is read within the block, while Spark runs. Raises ConfigError if there is nothing to audit."""
    cluster = Cluster(pipeline.kafka)
    delivered = None if options.delivered is None else _delivered(options.delivered)
    chosen, skipped = _chosen(pipeline, cluster, options)
    marks = [*dict.fromkeys(mark for evidence in chosen for mark in evidence.marks)]
    if len(marks) > MOST_MARKS:
        raise ConfigError(
            f"these ways go through {len(marks)} topics and groups, and one audit takes {MOST_MARKS}",
            next_step="audit some of them: --route PART_OF_A_NAME",
        )
    first = _start_ms(options.day) // 60_000
    claims = _claims(pipeline, cluster, _start_ms(options.day))
    dated = {evidence.way.name for evidence in chosen if evidence.way.hops[0].node.kind in _DATING}
    verdicts = {key: verdict for key, verdict in _verdicts(pipeline, cluster, first).items() if key[0] in dated}
    logging.getLogger("py4j").setLevel(logging.WARNING)
    shown = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
    name, settings = f"enrich audit {pipeline.name}", {**shown, **options.settings}
    with command_session(name, master=options.master, settings=settings) as spark:
        parts = [*_parts(pipeline, cluster, spark, chosen, marks, options.day)]
        count = sum(sum(part.ends.values()) - sum(part.starts.values()) for part in parts)
        _log.info("reading the day's topics", extra={"topics": len(parts), "records": count})
        judge = Judge(marks, claims, delivered)
        read = minutes(spark, source_options(pipeline.kafka), parts, first, first + PER_DAY - 1)
        yield Audit(_compared(chosen, judge, read, verdicts, first), skipped)


def _compared(
    chosen: Sequence[WayEvidence],
    judge: Judge,
    read: Iterator[tuple[int, Mapping[int, Origins]]],
    verdicts: Mapping[tuple[str, int], MinuteVerdict],
    first: int,
) -> Iterator[Compared]:
    seen: set[int] = set()
    for minute, marked in read:
        seen.add(minute)
        for evidence in chosen:
            yield compared(judge.judged(evidence, minute, marked), verdicts.get((evidence.way.name, minute)))
    # Minutes of which the topics have no event, and a verdict has.
    names = {evidence.way.name: evidence for evidence in chosen}
    for (name, minute), verdict in verdicts.items():
        if name in names and minute not in seen and first <= minute < first + PER_DAY and verdict.came:
            yield compared(judge.judged(names[name], minute, {}), verdict)


def _start_ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000


def _chosen(
    pipeline: Pipeline, cluster: Cluster, options: AuditOptions
) -> tuple[Sequence[WayEvidence], Mapping[str, str]]:
    if _start_ms(options.day) > time.time_ns() // 10**6:
        raise ConfigError(f"{options.day} is yet to come", where="--day")
    known = {*cluster.topics.names("")}
    found = evidence_of(pipeline, ways_of(pipeline), known)
    wanted = [evidence for evidence in found if options.route is None or options.route in evidence.way.name]
    if not wanted:
        names = ", ".join(repr(evidence.way.name) for evidence in found) or "none"
        raise ConfigError(f"no way through the pipeline has that in its name; there are {names}", where="--route")
    _require_seen(pipeline, cluster, wanted, known)
    reasons: dict[str, str | None] = {}
    skipped: dict[str, str] = {}
    for evidence in wanted:
        needed = {mark.topic for mark in evidence.entries} | {m.topic for hop in evidence.hops for m in hop.went}
        # What a stage has dropped is in no topic of events.
        if pipeline.tallies_topic is not None and any(hop.hop.node.kind is NodeKind.stage for hop in evidence.hops):
            needed.add(pipeline.tallies_topic)
        for topic in needed - reasons.keys():
            reasons[topic] = _unprovable(cluster, topic, _start_ms(options.day)) if topic in known else "does not exist"
        whys = [f"topic {topic} {reasons[topic]}" for topic in sorted(needed) if reasons[topic] is not None]
        if whys or not evidence.entries:
            skipped[evidence.way.name] = "; ".join(whys) or "nothing comes in there"
    chosen = [_without_topics(evidence, known) for evidence in wanted if evidence.way.name not in skipped]
    if not chosen:
        raise ConfigError(
            f"the day cannot be audited: {'; '.join(dict.fromkeys(skipped.values()))}",
            next_step="choose a later day, or keep the topics for longer",
        )
    return chosen, skipped


def _require_seen(pipeline: Pipeline, cluster: Cluster, wanted: Sequence[WayEvidence], known: Collection[str]) -> None:
    """Raises ConfigError for a topic that this user may not see: what is in a DLQ or a retry topic would be lost, or
    delivered."""
    topics = {mark.topic for evidence in wanted for mark in evidence.marks}
    if pipeline.tallies_topic is not None:
        topics.add(pipeline.tallies_topic)
    for topic in sorted(topics.difference(known)):
        with needs("READ", f"topic {topic}"):
            cluster.topics.is_there(topic)


def _unprovable(cluster: Cluster, topic: str, start_ms: int) -> str | None:
    """Why a topic cannot show what is missing."""
    with needs("DESCRIBE_CONFIGS", f"topic {topic}"):
        if is_compacted(cluster.topics.settings(topic)):
            return "is compacted: events without a record may have had one"
    oldest, from_day = cluster.topics.start_offsets(topic), cluster.topics.offsets_at(topic, start_ms - _MARGIN_MS)
    if any(offset and from_day[partition] <= offset for partition, offset in oldest.items()):
        return "has not kept the beginning of that day"
    return None


def _without_topics(evidence: WayEvidence, known: set[str]) -> WayEvidence:
    """Dead letters and retries have no topic before there is one."""
    hops = [
        type(hop)(
            hop.hop,
            hop.went,
            [mark for mark in hop.elsewhere if mark.topic in known],
            [mark for mark in hop.dead if mark.topic in known],
            [mark for mark in hop.waiting if mark.topic in known],
        )
        for hop in evidence.hops
    ]
    return WayEvidence(evidence.way, evidence.entries, hops)


def _parts(
    pipeline: Pipeline,
    cluster: Cluster,
    spark: SparkSession,
    chosen: Sequence[WayEvidence],
    marks: Sequence[Mark],
    day: date,
) -> Iterator[Part]:
    start_ms = _start_ms(day)
    # Whatever happened that day has come in a day later. What became of it is seen up to now.
    last_ms = start_ms + 2 * _DAY_MS + _MARGIN_MS
    times = {mark.topic: _time(pipeline, evidence, spark) for evidence in chosen for mark in evidence.entries}
    for topic in dict.fromkeys(mark.topic for mark in marks):
        starts = cluster.topics.offsets_at(topic, start_ms - _MARGIN_MS)
        ends = cluster.topics.offsets_at(topic, last_ms) if topic in times else cluster.topics.end_offsets(topic)
        set_by = [
            Bit(1 << index, _read_until(cluster, mark.unread_by, topic, ends) if mark.unread_by else None, mark.sent_by)
            for index, mark in enumerate(marks)
            if mark.topic == topic
        ]
        yield Part(topic, starts, ends, set_by, topic in times, times.get(topic))


def _read_until(cluster: Cluster, group: str, topic: str, ends: Offsets) -> Offsets:
    with closing(new_group_consumer(cluster.connection, group)) as consumer, needs("READ", f"group {group}"):
        found = committed(consumer, group, topic, ends)
    return {one.partition: one.offset for one in found}


def _time(pipeline: Pipeline, evidence: WayEvidence, spark: SparkSession) -> EventTime | None:
    """Of a stage where events come in: its `event_time`."""
    name = evidence.way.hops[0].node.name
    stage = pipeline.stages.get(name) if evidence.way.topic is None else None
    if stage is None or stage.event_time is None:
        return None
    columns = stage.source.columns
    if columns is None or stage.source.format != Format.json:
        raise ConfigError(
            f"events of stage {name} have their time in {stage.source.format}; an audit reads it in headers and JSON",
            where=f"stages.{name}.event_time",
            next_step="write the header enrich.event_time where they come in, as ingest does",
        )
    expressions = Expressions(spark, cast(StructType, StructType.fromDDL(str(columns))))
    return EventTime(str(columns), expressions.time(Expression(stage.event_time, f"stages.{name}.event_time"))[0])


def _delivered(path: Path) -> Origins:
    try:
        lines = path.read_text(encoding="ascii").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}", where="--delivered") from error
    found: list[Range] = []
    for number, line in enumerate(lines, 1):
        try:
            found += [range_of(name.strip()) for name in line.split(",") if name.strip()]
        except BadRecord as error:
            at, wanted = f"{path}, line {number}", "write what the header enrich-origins says"
            raise ConfigError(error.what, where=at, next_step=wanted) from error
    return Origins.of_ranges(found)


def _claims(pipeline: Pipeline, cluster: Cluster, start_ms: int) -> Claims:
    found: dict[tuple[Node, str], MergedTally] = {}
    if pipeline.tallies_topic is None or not cluster.topics.exists(pipeline.tallies_topic):
        return found
    for _, report in reports_since(cluster, pipeline.tallies_topic, start_ms - _MARGIN_MS):
        for tally in report.tallies:
            known = found.setdefault((report.node, tally.route), MergedTally())
            known.take(type(tally)(tally.route, went=tally.went, dropped=tally.dropped), "", 0)
    return found


def _verdicts(pipeline: Pipeline, cluster: Cluster, first: int) -> Mapping[tuple[str, int], MinuteVerdict]:
    if pipeline.observe is None:
        return {}
    with needs("READ", f"topic {pipeline.minutes_topic}"):
        if not cluster.topics.is_there(pipeline.minutes_topic):
            return {}  # no observer has run
    return {(verdict.route, verdict.minute): verdict for verdict in verdicts_of(pipeline, first)}
