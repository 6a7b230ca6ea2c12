"""Checks a topic's settings and records for everything that makes it unfit for its use."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from enrich.admin.census import Census, Shares, hashes_of, newest_of
from enrich.admin.cluster import Cluster
from enrich.admin.reading import Report, batches_of, silent
from enrich.admin.rights import grant
from enrich.admin.topics.actual import Actual
from enrich.admin.topics.notes import Note
from enrich.admin.topics.planning import ONE_COPY, is_enough, lacks_copies
from enrich.admin.topics.uses import Right
from enrich.admin.topics.wanted import Wanted
from enrich.kafka.records import key_of

_DUPLICATES = 0.7
"""Share of superseded records above which compaction would save so much that it is reported."""
_KEYS_NAMED = 3
_PATIENCE_MS = 60_000
"""Time for the cleaner's own schedule, added to what the settings promise."""


class Problem(StrEnum):
    """The reasons for which `enrich topics check` ends with 1. Scripts compare these words: never rename one."""

    missing = "missing"
    policy = "wrong_policy"
    unclean = "unclean_election"
    replicated = "under_replicated"
    rights = "rights_missing"
    encoding = "wrong_format"
    moved = "written_after_move"
    null_keys = "null_keys"
    oversized = "oversized"
    split_keys = "keys_in_two_partitions"
    duplicates = "duplicates"
    old = "older_than_promised"
    history = "history_not_kept"
    short = "kept_too_short"
    narrow = "takes_too_little"
    one_copy = "one_copy_is_enough"


@dataclass(frozen=True)
class Finding:
    problem: Problem
    what: str
    next_step: str


@dataclass
class Checked:
    """One topic, and what was found."""

    topic: str
    findings: list[Finding] = field(default_factory=list)
    shares: Shares | None = None
    """None if no record was read."""


def check_topic(
    cluster: Cluster,
    wanted: Wanted,
    actual: Actual | None,
    note: Note | None,
    report: Report = silent,
    *,
    deep: bool = True,
) -> Checked:
    """`deep`: also reads every record of topics that should be compacted."""
    checked = Checked(wanted.name)
    if actual is None:
        what = f"the topic does not exist ({', '.join(wanted.used_by)})"
        checked.findings.append(Finding(Problem.missing, what, "make it: enrich topics apply"))
        return checked
    checked.findings += _of_settings(wanted, actual, note)
    checked.findings += _of_needs(wanted, actual, cluster.brokers)
    if deep and wanted.is_compacted and (actual.rights is None or Right.read in actual.rights):
        census = Census()
        for batch in batches_of(cluster, wanted.name, report):
            census.add(batch)
        checked.findings += _of_records(cluster, actual, note, census)
        checked.shares = census.shares()
    return checked


def _of_settings(wanted: Wanted, actual: Actual, note: Note | None) -> Iterator[Finding]:
    settings, apply = actual.settings, "`enrich topics plan` shows the change, `apply` makes it"
    policy, want = settings.get("cleanup.policy"), wanted.settings.get("cleanup.policy")
    is_ours = "cleanup.policy" not in wanted.as_made
    if policy is not None and want is not None and is_ours and _words(policy) != _words(want):
        yield Finding(Problem.policy, f"cleanup.policy is {policy}, and should be {want}", apply)
    if settings.get("unclean.leader.election.enable") == "true":
        what = "a replica that lacks records may become the leader: acknowledged records would be lost"
        yield Finding(Problem.unclean, what, "set unclean.leader.election.enable=false: enrich topics apply")
    lag, least = settings.get("min.compaction.lag.ms"), wanted.settings.get("min.compaction.lag.ms")
    if lag is not None and least is not None and int(lag) < int(least) and "compact" in (policy or ""):
        what = f"min.compaction.lag.ms is {lag}: the tables' history and its margin need {least}"
        yield Finding(Problem.history, what, apply)
    behind = [part for part in actual.partitions if part.leader is None or part.in_sync < part.replicas]
    if behind:
        listed = ", ".join(str(part.number) for part in behind[:10])
        what = f"{len(behind)} partitions lack a leader or an in-sync replica: {listed}"
        yield Finding(Problem.replicated, what, "check the brokers; a partition without its replicas may lose records")
    missing = [] if actual.rights is None else sorted(wanted.rights - actual.rights)
    if actual.settings_error is not None and Right.describe_configs not in missing:
        missing.append(Right.describe_configs)
    if missing:
        what = f"this user lacks {', '.join(missing)}, for: {', '.join(wanted.used_by)}"
        yield Finding(Problem.rights, what, f"grant it: {grant(missing, 'topic', wanted.name)}")
    if note is not None and note.topic_id == actual.topic_id and note.format != wanted.format and wanted.format:
        what = f"its records are recorded as {note.format}, the configuration says {wanted.format}"
        yield Finding(Problem.encoding, what, "correct the format, or make another topic: enrich topics copy")


def _of_needs(wanted: Wanted, actual: Actual, brokers: int) -> Iterator[Finding]:
    """What others rely on: that records stay for long enough, that they fit, that they have copies."""
    problems = {"retention.ms": Problem.short, "max.message.bytes": Problem.narrow}
    for name, problem in problems.items():
        now, least = actual.settings.get(name), wanted.settings.get(name)
        if name in wanted.at_least and now is not None and least is not None and not is_enough(now, least):
            what = f"{name} is {now}, and {', '.join(wanted.used_by)} need at least {least}"
            yield Finding(problem, what, "`enrich topics plan` shows the change, `apply` makes it")
    copies = int(actual.settings.get("min.insync.replicas", 2))
    if copies < 2 and lacks_copies(wanted, brokers):
        what = f"min.insync.replicas is {copies} with {brokers} brokers: an acknowledged event may be lost with one"
        yield Finding(Problem.one_copy, what, ONE_COPY)


def _of_records(cluster: Cluster, actual: Actual, note: Note | None, census: Census) -> Iterator[Finding]:
    rows, shares, topic = census.rows(), census.shares(), actual.name
    if census.null_keys:
        records = ", ".join(f"{partition}/{offset}" for partition, offset in census.without_key[:_KEYS_NAMED])
        what = f"{census.null_keys:,} records without a key, from before the topic was compacted: {records}"
        yield Finding(Problem.null_keys, what, "they can become no rows; `enrich topics rekey` leaves them behind")
    largest = int(actual.settings.get("max.message.bytes", 2**31))
    oversized = rows[rows["size"] > largest]
    if len(oversized):
        one = oversized[np.argmax(oversized["size"])]
        what = f"{len(oversized):,} records are larger than max.message.bytes {largest:,}, up to {one['size']:,} bytes"
        found = f"{what}, at {one['partition']}/{one['offset']}"
        yield Finding(Problem.oversized, found, "they cannot be copied or replayed: raise max.message.bytes")
    split = _split_keys(cluster, topic, census)
    if split:
        named = ", ".join(key.decode("utf-8", "backslashreplace") for key in sorted(split)[:_KEYS_NAMED])
        what = f"{len(split):,} keys are in more than one partition, such as {named}"
        how = "writers have different partitioners, or partitions were added: `enrich topics rekey` repairs it"
        yield Finding(Problem.split_keys, what, how)
    considered = max(1, shares.superseded + shares.keys)
    if shares.superseded / considered > _DUPLICATES:
        what = f"{shares.superseded / considered:.0%} of the records are superseded: compaction would remove them"
        yield Finding(Problem.duplicates, what, "lower staleness under `topics`, or check the brokers' log cleaner")
    yield from _too_old(actual, rows)
    if note is not None and note.moved_to is not None and note.ends is not None and note.topic_id == actual.topic_id:
        later = {p: e for p, e in cluster.topics.end_offsets(topic).items() if e > int(note.ends.get(str(p), 0))}
        if later:
            what = f"the table moved to topic {note.moved_to}, and somebody still writes here"
            yield Finding(Problem.moved, what, "stop that writer, then run the move again: it copies the new records")


def _too_old(actual: Actual, rows: np.ndarray) -> Iterator[Finding]:
    settings, now = actual.settings, time.time_ns() // 1_000_000
    policy = _words(settings.get("cleanup.policy", ""))
    segment = int(settings.get("segment.ms", 0))
    retention = int(settings.get("retention.ms", -1))
    if "delete" in policy and retention > 0:
        old = rows[rows["time"] < now - retention - segment - _PATIENCE_MS]
        if len(old):
            what = f"{len(old):,} records are older than retention.ms {retention:,} and a segment allow"
            yield Finding(Problem.old, what, "check the brokers' log: deletion does not keep up, or times are wrong")
    lag = int(settings.get("max.compaction.lag.ms", 2**63 - 1))
    if "compact" in policy and lag < 2**62 and len(rows):
        # A record may go once it is superseded and as old as the lag.
        stale = rows[~newest_of(rows) & (rows["time"] < now - 2 * lag - _PATIENCE_MS)]
        if len(stale):
            what = f"{len(stale):,} superseded records are older than twice max.compaction.lag.ms {lag:,}"
            yield Finding(Problem.old, what, "check the brokers' log cleaner: it has stopped or does not keep up")


def _split_keys(cluster: Cluster, topic: str, census: Census) -> set[bytes]:
    """The split keys themselves. The topic is read again only if hashes of keys are in two partitions."""
    suspects = census.split_keys()
    if not len(suspects):
        return set()
    seen: dict[bytes, int] = {}
    split: set[bytes] = set()
    for batch in batches_of(cluster, topic):
        keys = [key_of(message) for message in batch]
        for index in np.flatnonzero(np.isin(hashes_of(keys), suspects)).tolist():
            key, partition = keys[index], batch[index].partition()
            if key is not None and partition is not None and seen.setdefault(key, partition) != partition:
                split.add(key)
    return split


def _words(policy: str) -> set[str]:
    return {word.strip() for word in policy.split(",") if word.strip()}
