"""Facts for which Kafka has no field: a topic's format, and where a table moved. They are in one compacted topic of the
cluster."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from enrich.admin.cluster import Cluster
from enrich.admin.reading import batches_of
from enrich.admin.rights import needs
from enrich.kafka import COMPACTED, DeliveringProducer
from enrich.kafka.records import key_of, value_of

NOTES_TOPIC = "enrich.topics"
CLOCK_KEY = b"enrich.clock"
"""Key of records that nobody reads: the broker puts its time on them, see `enrich doctor`."""


@dataclass(frozen=True)
class Note:
    """Facts about one topic. Void if the topic was recreated, that is for another `topic_id`."""

    topic_id: str
    format: str | None = None
    moved_to: str | None = None
    """The topic that the table moved to."""
    ends: Mapping[str, int] | None = None
    """End offsets of the partitions at the move. Later records come from a writer that does not know of the move."""


def read_notes(cluster: Cluster) -> dict[str, Note]:
    """All notes, by topic. Empty if the notes topic does not exist."""
    if not cluster.topics.exists(NOTES_TOPIC):
        return {}
    notes: dict[str, Note] = {}
    for messages in batches_of(cluster, NOTES_TOPIC):
        for message in messages:
            key, value = key_of(message), value_of(message)
            if key is not None and value is not None:
                notes[key.decode()] = _note(json.loads(value))
    return notes


def write_notes(cluster: Cluster, notes: Mapping[str, Note]) -> None:
    """Returns once the notes are acknowledged. The notes topic must exist."""
    with needs("WRITE", f"topic {NOTES_TOPIC}"), DeliveringProducer(cluster.connection) as producer:
        for topic, note in notes.items():
            fields = {name: value for name, value in asdict(note).items() if value is not None}
            producer.produce(NOTES_TOPIC, topic.encode(), json.dumps(fields, sort_keys=True).encode())
        producer.flush(cluster.deadline_s)


def ensure_notes_topic(cluster: Cluster) -> None:
    cluster.topics.ensure(NOTES_TOPIC, config={**COMPACTED, "message.timestamp.type": "LogAppendTime"})


def _note(fields: Mapping[str, object]) -> Note:
    # Fields of a later release are ignored.
    known = {name: fields[name] for name in ("topic_id", "format", "moved_to", "ends") if name in fields}
    return Note(**known)  # type: ignore[arg-type] # what we wrote ourselves
