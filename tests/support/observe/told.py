"""What the nodes of a pipeline have said of their events, read from its topic of tallies as an observer would."""

from collections.abc import Iterable

from enrich.base.errors import Retryable
from enrich.kafka.records import value_of
from enrich.tally import Merged, MergedTally, Node, NodeKind, Origins, decoded
from tests.support.kafka.topics import Cluster

Place = tuple[str, int, int]


def told(cluster: Cluster, pipeline: str) -> Merged:
    """Nothing if the topic is not there yet."""
    merged, topic = Merged(), f"{pipeline}.tallies"
    if cluster.topics.exists(topic):
        try:
            messages = cluster.messages(topic)
        except Retryable:  # made just now: its partitions have no leaders yet
            return merged
        for message in messages:
            merged.take(decoded(value_of(message) or b""))
    return merged


def told_by(cluster: Cluster, pipeline: str, kind: NodeKind, name: str) -> MergedTally:
    """Of all minutes."""
    return told(cluster, pipeline).of(Node(pipeline, kind, name))


def places(origins: Origins) -> set[Place]:
    return {(t, p, offset) for t, p, first, last in origins.ranges() for offset in range(first, last + 1)}


def below(topic: str, offsets: Iterable[tuple[int, int]]) -> set[Place]:
    """All places below the offset of each partition."""
    return {(topic, partition, offset) for partition, end in offsets for offset in range(end)}
