"""What observers and nodes have written of a pipeline, for the command line: verdicts, and the way of one event."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeVar

from confluent_kafka import Message, TopicPartition

from enrich.admin.clock import brokers_ms
from enrich.admin.cluster import Cluster
from enrich.admin.rights import needs
from enrich.base.errors import BadRecord, ConfigError
from enrich.config import Pipeline
from enrich.kafka import Connection, DeliveringProducer, Topics, new_store_consumer, read_topic
from enrich.tally import Node, Report, Tally, decoded
from enrich.verdict import MinuteVerdict, minute_text
from enrich.verdict.minute import range_of
from enrich.verdict.summary import Summary
from enrich.verdict.topic import ACTION, CLOCK, summaries_since, verdicts_since
from enrich.verdict.ways import ways_of

_BEFORE_MS = 60_000
"""Nodes speak of an event after it came; their clocks and the brokers' differ a little."""
_FOUND_S = 5.0


_Kind = TypeVar("_Kind", bound=MinuteVerdict | Summary)


def verdicts_of(pipeline: Pipeline, since_minute: int, route: str | None = None) -> Sequence[MinuteVerdict]:
    """The newest of each way and minute, in order of minutes. `route`: only ways with this in their name. Raises
    ConfigError if there is none at all."""
    return _since(pipeline, since_minute, route, verdicts_since)


def summaries_of(pipeline: Pipeline, since_minute: int, route: str | None = None) -> Sequence[Summary]:
    """The same in short: enough for days."""
    return _since(pipeline, since_minute, route, summaries_since)


def _since(
    pipeline: Pipeline,
    since_minute: int,
    route: str | None,
    read: Callable[[Connection, Topics, str, int], Iterator[_Kind]],
) -> Sequence[_Kind]:
    cluster = Cluster(pipeline.kafka)
    topic = pipeline.minutes_topic
    with needs("READ", f"topic {topic}"):
        found = [*read(cluster.connection, cluster.topics, topic, since_minute)]
    chosen = [verdict for verdict in found if route is None or route in verdict.route]
    if found and not chosen:
        names = ", ".join(sorted({repr(verdict.route) for verdict in found}))
        raise ConfigError(f"no way through the pipeline has {route!r} in its name; there are {names}", where="--route")
    return chosen


def announced(pipeline: Pipeline, text: str, lasts_s: float) -> str:
    """Returns until when."""
    cluster = Cluster(pipeline.kafka)
    # By the observer's clock, which is the brokers'.
    now_ms = brokers_ms(cluster, pipeline.minutes_topic, CLOCK, b"{}") or time.time_ns() // 10**6
    until_ms = now_ms + round(lasts_s * 1000)
    action = {"text": text, "from_ms": now_ms, "until_ms": until_ms}
    with DeliveringProducer(cluster.connection) as producer:
        key = ACTION + str(now_ms).encode()
        producer.produce(pipeline.minutes_topic, key=key, value=json.dumps(action).encode())
    return minute_text(until_ms // 60_000)


def traced(pipeline: Pipeline, origin: str) -> Sequence[dict[str, Any]]:
    """What each node has said of the event, in the order in which it was said first. Raises ConfigError for what is no
    origin."""
    try:
        topic, partition, offset, last = range_of(origin)
    except BadRecord as error:
        raise ConfigError(str(error.what), where="ORIGIN", next_step=error.next_step) from error
    if last != offset:
        raise ConfigError("one event at a time: this is a range", where="ORIGIN")
    if pipeline.tallies_topic is None:
        raise ConfigError("the pipeline writes no tallies", where="tallies", next_step="write `tallies: true`")
    cluster = Cluster(pipeline.kafka)
    came_ms = _time_of(cluster, topic, partition, offset)
    since_ms = None if came_ms is None else came_ms - _BEFORE_MS
    found = _said_of((topic, partition, offset), reports_since(cluster, pipeline.tallies_topic, since_ms))
    entries = {way.hops[0].node for way in ways_of(pipeline)}
    if since_ms is not None and not any(node in entries for node, _ in found):
        # Who wrote the record may have a clock that is ahead.
        found = _said_of((topic, partition, offset), reports_since(cluster, pipeline.tallies_topic, None))
    # Of a stage, what it says of the event as a whole says nothing that its routes do not.
    routed = {node for node, route in found if route}
    # By kind, as they stand in a chain: reports of the same second may come in any order.
    steps = sorted(found.items(), key=lambda item: (item[0][0].kind, item[1].pop("first_ms")))
    return [step for (node, route), step in steps if route or node not in routed or step["what"] != "went"]


def _said_of(
    origin: tuple[str, int, int], reports: Iterable[tuple[Message, Report]]
) -> Mapping[tuple[Node, str], dict[str, Any]]:
    """By node and route."""
    found: dict[tuple[Node, str], dict[str, Any]] = {}
    for message, report in reports:
        for tally in report.tallies:
            what = _what(tally, origin)
            if what is None:
                continue
            key = report.node, tally.route
            said_ms = message.timestamp()[1]
            step = found.setdefault(key, {"node": _called(report.node), "route": tally.route, "first_ms": said_ms})
            step["first_ms"] = min(said_ms, step["first_ms"])
            if _RANK[what] >= _RANK.get(step.get("what", ""), 0):
                # With its day: what waits may go on another one.
                at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(said_ms / 1000))
                minute = None if tally.minute is None else minute_text(tally.minute)
                step |= {"what": what, "at": at, "minute": minute or step.get("minute")}
    return found


def is_delivered(pipeline: Pipeline, steps: Sequence[Mapping[str, Any]]) -> bool:
    """Whether an event is at the end of each way that it took, by what `traced` has found. What a stage dropped is."""
    found = {(step["node"], step["route"]): step["what"] for step in steps}
    nodes = {node for node, _ in found}
    ended = False
    for way in ways_of(pipeline):
        for hop in way.hops:
            node = _called(hop.node)
            what = found.get((node, hop.route), found.get((node, "")))
            if what is None and (node in nodes or hop is way.hops[0]):
                break  # it took another way
            if what == "dropped":
                ended = True
                break
            if what != "went":
                return False
        else:
            ended = True
    return ended


def _called(node: Node) -> str:
    """In steps: it is read by machines, too."""
    return f"{node.kind.name} {node.name}"


_RANK = {"": 0, "came": 1, "waiting": 2, "dead": 3, "dropped": 4, "went": 5}


def _what(tally: Tally, origin: tuple[str, int, int]) -> str | None:
    for what in ("went", "dropped", "dead", "waiting", "came"):
        if origin in getattr(tally, what):
            return what
    return None


def reports_since(cluster: Cluster, topic: str, since_ms: int | None) -> Iterator[tuple[Message, Report]]:
    """What nodes have said since then, as the brokers had it. None: all that there is."""
    with needs("READ", f"topic {topic}"):
        if not cluster.topics.is_there(topic):
            raise ConfigError(f"there is no topic {topic}: no node has said anything yet")
        starts = cluster.topics.start_offsets(topic) if since_ms is None else cluster.topics.offsets_at(topic, since_ms)
        ends = cluster.topics.end_offsets(topic)
        for batch in read_topic(cluster.connection, topic, starts, ends):
            for message in batch:
                value = message.value()
                if value is None:
                    continue
                try:
                    yield message, decoded(value)
                except BadRecord:
                    continue


def _time_of(cluster: Cluster, topic: str, partition: int, offset: int) -> int | None:
    """When the record came. None: it is gone, or never was."""
    with needs("READ", f"topic {topic}"):
        if not cluster.topics.is_there(topic):
            raise ConfigError(f"there is no topic {topic}", where="ORIGIN")
    with closing(new_store_consumer(cluster.connection)) as consumer:
        starts, ends = cluster.topics.start_offsets(topic), cluster.topics.end_offsets(topic)
        if not starts.get(partition, 0) <= offset < ends.get(partition, 0):
            return None
        consumer.assign([TopicPartition(topic, partition, offset)])
        deadline_s = time.monotonic() + _FOUND_S
        while time.monotonic() < deadline_s:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                return message.timestamp()[1] if message.offset() == offset else None
    return None
