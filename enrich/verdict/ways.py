"""The ways that events take through a pipeline: from where they come in, hop by hop, to where nobody reads on."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from enrich.config import Pipeline
from enrich.tally import Node, NodeKind


@dataclass(frozen=True)
class Hop:
    node: Node
    route: str = ""
    """Of a stage: the one that the way takes. Empty: it has only one way out."""

    def __str__(self) -> str:
        return self._with_route(self.node.name)

    @property
    def with_kind(self) -> str:
        return self._with_route(node_name(self.node))

    def _with_route(self, node: str) -> str:
        return f"{node}.{self.route}" if self.route else node


@dataclass(frozen=True)
class Way:
    hops: Sequence[Hop]
    topic: str | None = None
    """Where ingest writes, if events come in there: an event's origin is its place in this topic."""
    topics: Sequence[str] | None = None
    """Of a first node that reads what the pipeline writes, too: those in which events come in."""
    says_kinds: bool = False
    """Whether its name says of what kind each node is: there is another way over nodes with the same names."""

    @property
    def name(self) -> str:
        return " > ".join(hop.with_kind if self.says_kinds else str(hop) for hop in self.hops)


@dataclass(frozen=True)
class _Place:
    """A node, with the topics that it reads and those that it writes by route."""

    node: Node
    reads: Callable[[str], bool]
    """Whether it reads the topic."""
    writes: Sequence[tuple[str, Sequence[str]]]
    topic: str | None = None
    named: Sequence[str] = ()
    """The topics that it reads, if they are named."""


def node_name(node: Node) -> str:
    """For people."""
    kind = "write-back" if node.kind is NodeKind.writeback else node.kind.name
    return f"{kind} {node.name}"


def ways_of(pipeline: Pipeline) -> Sequence[Way]:
    """A stage that reads its own output is followed once. No two have the same name: verdicts are known by it."""
    places = [*_places(pipeline)]
    written = {topic for place in places for _, topics in place.writes for topic in topics}
    found = [
        Way(hops, entry.topic, topics)
        for entry in places
        if (topics := _entry_topics(entry, written)) is None or topics
        for hops in _from(entry, places, ())
    ]
    times = Counter(way.name for way in found)
    return [replace(way, says_kinds=times[way.name] > 1) for way in found]


def readers_of(pipeline: Pipeline) -> Mapping[Node, Callable[[str], bool]]:
    """Of each node that reads topics, which."""
    return {place.node: place.reads for place in _places(pipeline) if place.reads is not _nothing}


def named_topics_of(pipeline: Pipeline) -> Mapping[Node, frozenset[str]]:
    """Of each node the topics that it reads. None of one with a pattern, and of ingest, which reads none."""
    return {place.node: frozenset(place.named) for place in _places(pipeline)}


def _entry_topics(place: _Place, written: set[str]) -> Sequence[str] | None:
    """In which topics events come in there: nobody of the pipeline writes them. None: in all that it reads."""
    if not any(map(place.reads, written)):
        return None
    return [topic for topic in place.named if topic not in written]


def _places(pipeline: Pipeline) -> Iterator[_Place]:
    def node(kind: NodeKind, name: str) -> Node:
        return Node(pipeline.name, kind, name)

    for name, entry in pipeline.ingest.items():
        yield _Place(node(NodeKind.ingest, name), _nothing, [("", (str(entry.topic),))], str(entry.topic))
    for name, stage in pipeline.stages.items():
        writes = [(route.name, route.all_topics) for route in stage.routes] or [("", stage.outputs)]
        named = stage.source.all_topics
        yield _Place(node(NodeKind.stage, name), stage.source.reads, writes, named=named)
    for name, route in pipeline.expel.items():
        topic = str(route.topic)
        yield _Place(node(NodeKind.expel, name), topic.__eq__, [("", ())], named=(topic,))
    for name, sink in ({} if pipeline.sync is None else pipeline.sync.writeback).items():
        topic = str(sink.topic)
        yield _Place(node(NodeKind.writeback, name), topic.__eq__, [("", ())], named=(topic,))


def _nothing(topic: str) -> bool:  # noqa: ARG001 - as others have it
    return False


def _from(place: _Place, places: Sequence[_Place], before: tuple[Hop, ...]) -> Iterator[tuple[Hop, ...]]:
    for route, topics in place.writes:
        hops = (*before, Hop(place.node, route))
        seen = {hop.node for hop in hops}
        following = [each for each in places if each.node not in seen and any(map(each.reads, topics))]
        if not following:
            yield hops
        for each in following:
            yield from _from(each, places, hops)
