"""What the retrier has to know of a route's topics: whether they are there and still the same, and their ends."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from edge_service.retrier.plan import RetryPlan
from edge_service.retrier.waiting import Line
from enrich.base.errors import ConfigError, EnrichError
from enrich.kafka import TopicEnds, Topics


@dataclass(frozen=True)
class Places:
    """The topics at one moment."""

    known: Mapping[str, TopicEnds]
    missing: Sequence[str]
    is_told: bool = False
    """Whether brokers have just said something of it."""

    def is_there(self, topic: str) -> bool:
        return topic in self.known

    def partitions(self, topic: str) -> int:
        return len(self.known[topic].offsets)

    def is_like(self, other: "Places", topic: str) -> bool:
        """Whether the topic has as many partitions there; none if it is missing."""
        mine, theirs = self.known.get(topic), other.known.get(topic)
        return len(mine.offsets if mine else ()) == len(theirs.offsets if theirs else ())

    def waiting(self, topic: str, lines: Iterable[Line]) -> int | None:
        """How many records of the topic's lines are not forwarded; None: not known yet."""
        if topic not in self.known:
            return None
        total, ends = 0, self.known[topic].offsets
        for line in lines:
            if line.topic == topic:
                if line.position is None:
                    return None
                # Some may have come since the ends were asked for.
                total += max(len(line), ends.get(line.partition, 0) - line.position)
        return total


NOWHERE = Places({}, ())


def look(plan: RetryPlan, topics: Topics, before: Places) -> Places:
    """Raises Retryable if the brokers do not answer. A missing topic is no error: who needs it makes it."""
    known: dict[str, TopicEnds] = {}
    missing, is_told = [], False
    for name, ends in topics.ends(plan.topics).items():
        if isinstance(ends, TopicEnds):
            known[name], is_told = ends, True
        elif isinstance(ends, ConfigError):
            missing.append(name)
            is_told = True
        else:
            _require_known(name, ends, before, known)
    return Places(known, missing, is_told)


def _require_known(name: str, error: EnrichError, before: Places, known: dict[str, TopicEnds]) -> None:
    """A partition may have no leader for a moment: what was known is good enough then."""
    if name not in before.known:
        raise error
    known[name] = before.known[name]
