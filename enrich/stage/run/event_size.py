"""The size of a topic's events, measured on its newest ones."""

from contextlib import suppress

from enrich.base.errors import Unreachable
from enrich.config import Replay, Stage
from enrich.kafka import Connection, Topics, new_admin_client, read_topic
from enrich.stage.progress.checkpoint import Checkpoint

_PARTITIONS = 16
"""That many are enough for an estimate."""
_OF_EACH_PARTITION = 20
_PATIENCE_S = 3.0
_KEPT = "enrich-event-bytes"


def typical_event_bytes(connection: Connection, stage: Stage, checkpoint: Checkpoint) -> int:
    """Measured now. With `replay: deterministic` measured once and kept in the checkpoint: a repeated batch must be
    joined in the same way as the first time, however large later events are."""
    topic = stage.source.topic
    if stage.replay != Replay.deterministic:
        return mean_event_bytes(connection, topic)
    kept = checkpoint.read(_KEPT)
    if kept is None:
        checkpoint.create(_KEPT, str(mean_event_bytes(connection, topic)))
        kept = checkpoint.read(_KEPT)
    return int(kept or 0)


def mean_event_bytes(connection: Connection, topic: str) -> int:
    """0 if there are no events, or if they do not arrive in time: it is only a hint."""
    topics = Topics(new_admin_client(connection))
    first, ends = topics.start_offsets(topic), dict(sorted(topics.end_offsets(topic).items())[:_PARTITIONS])
    starts = {partition: max(first[partition], end - _OF_EACH_PARTITION) for partition, end in ends.items()}
    sizes: list[int] = []
    with suppress(Unreachable):
        for batch in read_topic(connection, topic, starts, ends, stalled_s=_PATIENCE_S):
            sizes += [len(message.value() or b"") for message in batch]
    return round(sum(sizes) / len(sizes)) if sizes else 0
