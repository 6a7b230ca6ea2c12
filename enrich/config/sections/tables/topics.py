"""The section `topics`: what people decide about topics, for `enrich topics plan`. All else follows from their use."""

from enum import StrEnum
from typing import Annotated

from pydantic import WithJsonSchema

from enrich.config.types.fields import TOPIC_PATTERN, Between, Section, matching, one_of
from enrich.config.types.quantities import Duration, Size

EVERY_TOPIC = "*"
TOPIC_OR_ALL_PATTERN = rf"^\*$|{TOPIC_PATTERN}"

TopicOrAll = Annotated[
    str,
    matching(TOPIC_OR_ALL_PATTERN, "a topic name, or `*` for all topics"),
    WithJsonSchema({"type": "string", "pattern": TOPIC_OR_ALL_PATTERN}),
]


class Cleanup(StrEnum):
    compact = "compact"
    delete = "delete"
    both = "compact,delete"


class TopicWishes(Section):
    """What one topic, or every topic of the pipeline, should be like."""

    partitions: Annotated[int, Between(1, 100_000)] | None = None
    """How many partitions; without it, 4 for a new topic, else what it has."""
    replication: Annotated[int, Between(1, 100)] | None = None
    """Copies of each partition, for a new topic; without it, the brokers' default."""
    min_insync_replicas: Annotated[int, Between(1, 100)] | None = None
    """How many copies must have a record; without it, all but one, and at least one."""
    size: Size | None = None
    """Approximate size of the newest records of all keys together: decides segment.bytes."""
    staleness: Duration | None = None
    """How soon a superseded record should be compacted away; 1d."""
    downtime: Duration | None = None
    """How long a host may be away and still learn of every deletion; 1d."""
    retention: Duration | None = None
    """How long records stay if cleanup deletes them; without it, the brokers' default."""
    max_message: Size | None = None
    """The largest record; without it, the brokers' default."""
    cleanup: Annotated[Cleanup, one_of(Cleanup)] | None = None
    """compact, delete, or compact,delete; without it, what the topic is used for."""

    def over(self, others: "TopicWishes") -> "TopicWishes":
        """These wishes, and where they are silent the others'."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return others.model_copy(update={name: wish for name, wish in given.items() if wish is not None})
