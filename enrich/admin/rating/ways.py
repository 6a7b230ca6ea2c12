"""Which way through a pipeline is rated, and where its events are sent."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from enrich.admin.cluster import Cluster
from enrich.admin.rating.generating import HttpTarget, KafkaTarget, Target
from enrich.admin.rating.samples import Samples
from enrich.admin.topics.uses import Use, uses_of
from enrich.base.errors import ConfigError
from enrich.config import Ingest, Pipeline
from enrich.kafka.writing.room import sized_for
from enrich.service.asking import reached_at
from enrich.tally import Node, NodeKind
from enrich.verdict.ways import Way, ways_of


@dataclass(frozen=True)
class RatedWay:
    name: str
    entry: str
    """For people: where events are sent."""
    last: Node
    time_field: str | None
    new_target: Callable[[], Target]
    most_events: int = sys.maxsize
    """In a request, as the entry has it."""
    most_bytes: int = sys.maxsize

    def samples(self, file: Path) -> Samples:
        return Samples.of_file(file, self.time_field)

    def per_request(self, samples: Samples) -> int:
        """How many events a request may hold."""
        return max(1, min(self.most_events, self.most_bytes // (samples.largest + 1)))  # and the end of its line


def way_to_rate(pipeline: Pipeline, cluster: Cluster, route: str | None, token: str | None) -> RatedWay:
    """Raises ConfigError if there is none, or more than one."""
    if pipeline.tallies_topic is None:
        raise ConfigError(
            "the pipeline writes no tallies: nobody says how late events are",
            where="tallies",
            next_step="write `tallies: true`, and restart its programs",
        )
    _require_own_topic(pipeline)
    ways = [way for way in ways_of(pipeline) if route is None or route in way.name]
    if len(ways) != 1:
        names = ", ".join(repr(way.name) for way in (ways or ways_of(pipeline))) or "none"
        problem = "no way has that in its name" if not ways else "several ways could be meant"
        raise ConfigError(f"{problem}; there are {names}", where="--route")
    return _rated(pipeline, cluster, ways[0], token)


def _require_own_topic(pipeline: Pipeline) -> None:
    """The rating would be among events or rows. With `observe` the configuration refuses that already."""
    topic = pipeline.ratings_topic
    for used in uses_of(pipeline, [topic]):
        if used.topic == topic and used.use is not Use.ratings:
            raise ConfigError(
                f"ratings are kept in {topic}, which the pipeline uses for something else: {used.by}",
                where="name",
                next_step="rate it with another name of the pipeline or of the topic",
            )


def _rated(pipeline: Pipeline, cluster: Cluster, way: Way, token: str | None) -> RatedWay:
    first, last = way.hops[0].node, way.hops[-1].node
    if first.kind is NodeKind.ingest:
        entry = pipeline.ingest[first.name]
        url, own = _url(first.name, entry), _token(entry, token)
        most = entry.max_events, entry.max_body
        return RatedWay(way.name, url, last, entry.event_time, lambda: HttpTarget(url, own), *most)
    topic = _topic(pipeline, first)
    connection = sized_for([topic], cluster.topics, cluster.connection)
    return RatedWay(way.name, f"topic {topic}", last, None, lambda: KafkaTarget(connection, topic))


def _url(name: str, entry: Ingest) -> str:
    host, port = reached_at(entry.listen)
    if not port:
        raise ConfigError("the port 0 stands for any free one: nobody can send there", where=f"ingest.{name}.listen")
    return f"http{'' if entry.tls is None else 's'}://{host}:{port}{entry.path}"


def _token(entry: Ingest, token: str | None) -> str | None:
    if token is not None or not entry.tokens:
        return token
    return str(entry.tokens[0].get_secret_value())


def _topic(pipeline: Pipeline, node: Node) -> str:
    if node.kind is NodeKind.stage:
        topics = pipeline.stages[node.name].source.all_topics
        if len(topics) == 1:
            return str(topics[0])
        raise ConfigError(f"the stage {node.name} reads several topics", next_step="rate a way that begins at one")
    if node.kind is NodeKind.expel:
        return str(pipeline.expel[node.name].topic)
    raise ConfigError(f"events of a write-back, {node.name}, are rows: they cannot be sent over and over")
