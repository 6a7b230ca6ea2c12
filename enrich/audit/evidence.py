"""Which topic shows what: the places of a pipeline in which an event leaves its origin."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from enrich.config import Pipeline, retry_prefix, retry_topics
from enrich.config.groups import expel_group, retrier_group, stage_group, writeback_group
from enrich.config.sections.edges.expel import retry_in_topics, retry_out_topic
from enrich.tally import Node, NodeKind
from enrich.verdict.ways import Hop, Way, readers_of


@dataclass(frozen=True)
class Mark:
    """What an origin gets by a record of it in the topic."""

    topic: str
    unread_by: str | None = None
    """Only by a record that this consumer group has not read yet."""
    sent_by: str | None = None
    """Only by a dead letter of this sender: others may have the same DLQ."""


@dataclass(frozen=True)
class HopEvidence:
    hop: Hop
    went: Sequence[Mark]
    """Any of them shows that the event went on. Empty: what goes on leaves the pipeline, and is in no topic."""
    elsewhere: Sequence[Mark]
    """It took another route."""
    dead: Sequence[Mark]
    waiting: Sequence[Mark]


@dataclass(frozen=True)
class WayEvidence:
    way: Way
    entries: Sequence[Mark]
    """Where its events came in."""
    hops: Sequence[HopEvidence]
    """Behind ingest, whose events are what its topic has."""

    @property
    def marks(self) -> Iterator[Mark]:
        yield from self.entries
        for hop in self.hops:
            for some in (hop.went, hop.elsewhere, hop.dead, hop.waiting):
                yield from some


def evidence_of(pipeline: Pipeline, ways: Sequence[Way], topics: Iterable[str]) -> Sequence[WayEvidence]:
    """`topics`: all that there are, for sources with a pattern."""
    reads, known = readers_of(pipeline), [*topics]
    found = []
    for way in ways:
        hops = [hop for hop in way.hops if hop.node.kind is not NodeKind.ingest]
        first = [way.topic] if way.topic is not None else [*filter(reads[hops[0].node], known)] if hops else []
        first = first if way.topics is None else [topic for topic in first if topic in way.topics]
        given, evidence = first, list[HopEvidence]()
        for hop in hops:
            read = [topic for topic in given if reads[hop.node](topic)]
            evidence.append(_of(pipeline, hop, read))
            given = [mark.topic for mark in evidence[-1].went]
        found.append(WayEvidence(way, [Mark(topic) for topic in first], evidence))
    return found


def group_of(node: Node) -> str:
    """The consumer group by which a node says how far it is."""
    groups = {NodeKind.expel: expel_group, NodeKind.writeback: writeback_group}
    return groups.get(node.kind, stage_group)(node.pipeline, node.name)


def _of(pipeline: Pipeline, hop: Hop, read: Sequence[str]) -> HopEvidence:
    node = hop.node
    waiting = [Mark(topic, group_of(node)) for topic in read]
    if node.kind is NodeKind.stage:
        stage = pipeline.stages[node.name]
        by_route: Mapping[str, Sequence[str]] = {route.name: route.all_topics for route in stage.routes}
        own = by_route.get(hop.route, stage.outputs)
        others = [topic for topics in by_route.values() for topic in topics if topic not in own]
        dead = [] if stage.dlq is None else [Mark(stage.dlq, sent_by=f"{pipeline.name}.{node.name}")]
        return HopEvidence(hop, [*map(Mark, own)], [*map(Mark, dict.fromkeys(others))], dead, waiting)
    if node.kind is NodeKind.expel:
        route = pipeline.expel[node.name]
        retrier = retrier_group(pipeline.name, node.name)
        paused = [topic for topic, _ in retry_in_topics(pipeline.name, node.name, route.retries)]
        waiting += [Mark(topic, retrier) for topic in paused]
        waiting += [Mark(retry_out_topic(pipeline.name, node.name), group_of(node))] if paused else []
        dead = [Mark(str(route.dlq), sent_by=f"{pipeline.name}.expel.{node.name}")]
        return HopEvidence(hop, [], [], dead, waiting)
    assert pipeline.sync is not None  # noqa: S101 - the way has its write-back
    back = pipeline.sync.writeback[node.name]
    for topic, _ in retry_topics(pipeline.name, node.name, back.retries):
        pause = topic.removeprefix(retry_prefix(pipeline.name, node.name))
        waiting.append(Mark(topic, f"{group_of(node)}.retry.{pause}"))
    return HopEvidence(hop, [], [], [Mark(str(back.dlq), sent_by=f"{pipeline.name}.sync.{node.name}")], waiting)
