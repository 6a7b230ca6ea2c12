"""Reads what is in a topic now, and reports progress."""

from collections.abc import Callable, Iterator, Mapping

from confluent_kafka import Message

from enrich.admin.cluster import Cluster
from enrich.admin.rights import needs
from enrich.kafka import read_topic

Report = Callable[[str], None]


def silent(_: str) -> None:
    """For callers that show no progress."""


def batches_of(
    cluster: Cluster,
    topic: str,
    report: Report = silent,
    *,
    starts: Mapping[int, int] | None = None,
    ends: Mapping[int, int] | None = None,
) -> Iterator[list[Message]]:
    """All committed records between the offsets, by default from the topic's current start to its current end."""
    with needs("DESCRIBE", f"topic {topic}"):
        begin = cluster.topics.start_offsets(topic) if starts is None else starts
        until = cluster.topics.end_offsets(topic) if ends is None else ends
    records = 0
    batches = read_topic(cluster.connection, topic, begin, until, stalled_s=cluster.deadline_s)
    while True:
        with needs("READ", f"topic {topic}"):
            batch = next(batches, None)
        if batch is None:
            return
        records += len(batch)
        report(f"{records:,} records of topic {topic} read")
        yield batch
