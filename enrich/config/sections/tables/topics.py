"""The section `topics`: what people decide about topics, for `enrich topics plan`. All else follows from their use."""

from enum import StrEnum
from typing import Annotated

from enrich.config.types.fields import TOPIC_PATTERN, Between, Matching, Section, one_of
from enrich.config.types.quantities import Duration, Size

EVERY_TOPIC = "*"
TOPIC_OR_ALL_PATTERN = rf"^\*$|{TOPIC_PATTERN}"

TopicOrAll = Annotated[str, Matching(TOPIC_OR_ALL_PATTERN, "a topic name, or `*` for all topics")]


class Cleanup(StrEnum):
    compact = "compact"
    delete = "delete"
    both = "compact,delete"


class TopicWishes(Section):
    """What one topic, or every topic of the pipeline, should be like."""

    partitions: Annotated[int, Between(1, 100_000)] | None = None
    """How many partitions the topic has. Default: 4 for a new topic, else what it has."""
    replication: Annotated[int, Between(1, 100)] | None = None
    """Copies of each partition, for a new topic. Default: the brokers'."""
    min_insync_replicas: Annotated[int, Between(1, 100)] | None = None
    """How many copies must have a record before it is acknowledged. Default: all but one, and at least one."""
    size: Size | None = None
    """Approximate size of the newest records of all keys together. Decides `segment.bytes`. Default: 1GiB."""
    staleness: Duration | None = None
    """How soon a superseded record should be compacted away. Decides `max.compaction.lag.ms`, `segment.ms` and
    `min.cleanable.dirty.ratio`. Default: 1d."""
    downtime: Duration | None = None
    """How long a host may be away and still learn of every deletion. `delete.retention.ms` is twice that. Default:
    1d."""
    retention: Duration | None = None
    """How long records stay if cleanup deletes them. Default: the brokers'."""
    max_message: Size | None = None
    """The largest record. Default: the brokers'."""
    cleanup: Annotated[Cleanup, one_of(Cleanup)] | None = None
    """The cleanup policy: `compact`, `delete` or `compact,delete`. Default: what its use asks for."""

    def over(self, others: "TopicWishes") -> "TopicWishes":
        """These wishes, and where they are silent the others'."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return others.model_copy(update={name: wish for name, wish in given.items() if wish is not None})
