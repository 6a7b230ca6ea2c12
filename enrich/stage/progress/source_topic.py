"""The topic, by id, to which a checkpoint's offsets belong. If a topic was recreated or truncated the same offsets are
other events, and Spark would continue silently. So each start checks it, and a running stage once a second."""

import json
import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from enrich.base.errors import EnrichError, Retryable, WouldLoseData
from enrich.kafka import Topics

_log = logging.getLogger(__name__)

NAME = "enrich-source"
"""The text in the checkpoint that names the topic."""
_LOOK_EVERY_S = 1.0
_FRESH_START = "to read it from its beginning, move the checkpoint away and start with --from earliest"
_ACCEPT = "if it holds the same events at the same offsets, as after a move of the cluster: --accept-new-source"


class Texts(Protocol):
    """The part of a checkpoint that is needed here."""

    def batches(self, name: str) -> list[int]: ...
    def read(self, name: str) -> str | None: ...
    def write(self, name: str, text: str) -> None: ...


@dataclass(frozen=True)
class SourceTopic:
    """One topic among all that have had its name."""

    topic: str
    topic_id: str

    def to_text(self) -> str:
        return json.dumps({"topic": self.topic, "topic_id": self.topic_id})

    @classmethod
    def from_text(cls, text: str) -> "SourceTopic":
        content = json.loads(text)
        return cls(str(content["topic"]), str(content["topic_id"]))

    def require_known_to(self, checkpoint: Texts, *, accepts_another: bool = False) -> None:
        """Raises WouldLoseData if the checkpoint's offsets are those of another topic."""
        if not checkpoint.batches("offsets"):
            return
        text = checkpoint.read(NAME)
        if text is None:
            _log.warning(
                "the checkpoint does not name the topic of its offsets yet; from now on it names this one",
                extra={"topic": self.topic, "topic_id": self.topic_id},
            )
            return
        known = SourceTopic.from_text(text)
        if known.topic != self.topic:
            raise WouldLoseData(
                f"the checkpoint has offsets of the topic {known.topic}, and the stage now reads {self.topic}",
                where=f"topic {self.topic}",
                next_step=f"give the stage its topic again, or, {_FRESH_START}",
            )
        if known.topic_id == self.topic_id:
            return
        if accepts_another:
            _log.warning("the stage continues in another topic of this name", extra={"topic": self.topic})
            return
        raise self.recreated()

    def keep_with(self, checkpoint: Texts) -> None:
        """Records in the checkpoint that its offsets are those of this topic."""
        if checkpoint.read(NAME) != self.to_text():
            checkpoint.write(NAME, self.to_text())

    def require_kept(self, position: Mapping[int, int], first: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """Raises WouldLoseData if the brokers no longer have all events from this position on.

        `first`, `ends`: the partitions' current start and end offsets.
        """
        for partition, offset in sorted(position.items()):
            where = f"topic {self.topic}, partition {partition}, offset {offset}"
            if partition not in ends or offset > ends[partition]:
                end = f"ends at {ends[partition]}" if partition in ends else "is not there"
                raise WouldLoseData(
                    f"the checkpoint lies beyond the topic's end: the partition {end}; "
                    "it was recreated, or lost events",
                    where=where,
                    next_step=_FRESH_START,
                )
            if offset < first[partition]:
                raise WouldLoseData(
                    f"the brokers have deleted {first[partition] - offset} events that were not read yet: "
                    f"the partition begins at {first[partition]}",
                    where=where,
                    next_step=f"give the topic a longer retention; {_FRESH_START}",
                )

    def recreated(self) -> WouldLoseData:
        return WouldLoseData(
            "the topic was deleted and recreated: at the checkpoint's offsets it has other events",
            where=f"topic {self.topic}",
            next_step=f"{_FRESH_START}; {_ACCEPT}",
        )


def position_of(checkpoint: Texts, topic: str) -> Mapping[int, int]:
    """By partition, the first offset that the next start reads, as Spark recorded it. Empty if it is unknown."""
    planned, done = checkpoint.batches("offsets"), checkpoint.batches("commits")
    if not planned:
        return {}
    last = planned[-1]
    if last in done:
        text = checkpoint.read(f"offsets/{last}")
    else:
        # The batch will be repeated: it starts where the one before it ended, the first at the initial offsets.
        text = checkpoint.read(f"offsets/{last - 1}" if last else "sources/0/0")
    lines = [line for line in (text or "").splitlines() if line.startswith("{")]
    content = json.loads(lines[-1]).get(topic, {}) if lines else {}
    return {int(partition): int(offset) for partition, offset in content.items()}


class SourceWatch:
    """Checks once a second whether the topic is still the one that the stage began to read."""

    def __init__(self, source: SourceTopic, topics: Topics) -> None:
        self._source = source
        self._topics = topics
        self._problem: WouldLoseData | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="source-watch", daemon=True)
        self._thread.start()

    def require_same(self) -> None:
        """By the last check. Raises WouldLoseData."""
        if self._problem is not None:
            raise self._problem

    def require_same_now(self) -> None:
        """By a new check. Raises WouldLoseData, and ConfigError if the topic is gone or may not be read."""
        try:
            self._look()
        except Retryable:
            _log.info("the topic of the events cannot be looked up now", extra={"topic": self._source.topic})
        self.require_same()

    def close(self) -> None:
        self._stopping.set()

    def _look_on(self) -> None:
        while not self._stopping.wait(_LOOK_EVERY_S):
            # If the topic or the brokers are gone, Spark reports it itself.
            with suppress(EnrichError):
                self._look()

    def _look(self) -> None:
        if self._topics.topic_id(self._source.topic) != self._source.topic_id:
            self._problem = self._source.recreated()
