"""The topics, by id, to which a checkpoint's offsets belong. If a topic was recreated or truncated the same offsets are
other events, and Spark would continue silently. So each start checks it, and a running stage once a second
(source_watch.py)."""

import json
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from enrich.base.errors import WouldLoseData

_log = logging.getLogger(__name__)

NAME = "enrich-source"
"""The text in the checkpoint that names the topics."""
BEGINNING = "sources/0/0"
"""Spark's record of the offsets at which a query begins, written before its first batch."""
_FRESH_START = (
    "move the checkpoint away and start with --from earliest: all topics of the stage are read from their beginning"
)
FROM_THE_OLDEST = (
    "to go on with the oldest events that there are, move the checkpoint away and start with --from earliest: what the "
    "brokers still have of other partitions is processed once more"
)
_ACCEPT = "if it holds the same events at the same offsets, as after a move of the cluster: --accept-new-source"
_WITHOUT_IT = (
    "to leave it out with what was not read of it, move the checkpoint away and start with --from group: the other "
    "topics go on where they are"
)


class Texts(Protocol):
    """The part of a checkpoint that is needed here."""

    def batches(self, name: str) -> list[int]: ...
    def read(self, name: str) -> str | None: ...
    def write(self, name: str, text: str) -> None: ...


Position = Mapping[str, Mapping[int, int]]
"""Topic -> partition -> offset."""


@dataclass(frozen=True)
class SourceTopics:
    """The topics of a source, each of them one among all that have had its name."""

    ids: Mapping[str, str]
    """By topic."""
    found_late: frozenset[str] = frozenset()
    """Topics that Spark found while the stage ran. The keys of their dead letters do not have the id, which the plan
    of the running query could not know: they stay as they are, or a repeated letter would be another one."""

    @property
    def ids_in_letters(self) -> Mapping[str, str]:
        return {topic: topic_id for topic, topic_id in self.ids.items() if topic not in self.found_late}

    def to_text(self) -> str:
        if len(self.ids) == 1 and not self.found_late:
            # As earlier releases write it, so that they can continue.
            ((topic, topic_id),) = self.ids.items()
            return json.dumps({"topic": topic, "topic_id": topic_id})
        return json.dumps({"topics": dict(sorted(self.ids.items())), "found_late": sorted(self.found_late)})

    @classmethod
    def from_text(cls, text: str) -> "SourceTopics":
        content = json.loads(text)
        if "topic" in content:
            return cls({str(content["topic"]): str(content["topic_id"])})
        return cls(dict(content["topics"]), frozenset(content["found_late"]))

    def continued(
        self, checkpoint: Texts, reads: Callable[[str], bool], *, accepts_another: bool = False
    ) -> "SourceTopics":
        """These topics with what the checkpoint knows of them. `reads`: whether the source reads a topic of this name.

        Raises WouldLoseData if the checkpoint's offsets are those of other topics.
        """
        if not checkpoint.batches("offsets"):
            begins = offsets_in(checkpoint.read(BEGINNING) or "")
            self.require_begun(checkpoint.read(NAME), begins, accepts_another=accepts_another)
            return self
        read = last_planned(checkpoint).keys()
        return self.after(checkpoint.read(NAME), read, reads, accepts_another=accepts_another)

    def after(
        self, text: str | None, read: Collection[str], reads: Callable[[str], bool], *, accepts_another: bool = False
    ) -> "SourceTopics":
        """The same where progress is kept elsewhere. `text`: what `keep_with` has written. `read`: the topics of which
        something was read."""
        read = set(read)
        known = SourceTopics({}) if text is None else SourceTopics.from_text(text)
        self._require_none_removed(known.ids.keys() | read, reads)
        if text is None:
            extra = {"topics": sorted(self.ids), "topic_ids": [self.ids[topic] for topic in sorted(self.ids)]}
            _log.warning(
                "the checkpoint does not name the topic of its offsets yet; from now on it names those of the stage",
                extra=extra,
            )
            return self
        again = sorted(topic for topic in known.ids if known.ids[topic] != self.ids[topic])
        if again and not accepts_another:
            raise recreated(again[0])
        if again:
            _log.warning("the stage continues in other topics of these names", extra={"topics": again})
        added = sorted(self.ids.keys() - known.ids.keys() - read)
        if added:
            _log.info("the source has further topics, which are read from their beginning", extra={"topics": added})
        # A topic that was read, but not named: the stage was killed before it could.
        late = (known.found_late | (read - known.ids.keys())) - set(again)
        return SourceTopics(self.ids, frozenset(late & self.ids.keys()))

    def with_late(self, ids: Mapping[str, str]) -> "SourceTopics":
        """With topics that were found while the stage runs."""
        return SourceTopics({**ids, **self.ids}, self.found_late | (ids.keys() - self.ids.keys()))

    def keep_with(self, checkpoint: Texts) -> None:
        """Records in the checkpoint that its offsets are those of these topics."""
        if checkpoint.read(NAME) != self.to_text():
            checkpoint.write(NAME, self.to_text())

    def require_begun(self, text: str | None, begins: Position, *, accepts_another: bool) -> None:
        """If a start ended before its first event nothing is read, but the next one begins where that one would have.
        Topics may have come and gone since, and where it is a topic's first offset, the topic may be another one.
        `text`: what `keep_with` has written. Raises WouldLoseData if they are offsets of other topics."""
        if text is None or accepts_another:
            return
        known = SourceTopics.from_text(text).ids
        for topic in sorted(self.ids.keys() & known.keys()):
            if known[topic] != self.ids[topic] and any(begins.get(topic, {}).values()):
                raise recreated(topic)

    def _require_none_removed(self, known: Collection[str], reads: Callable[[str], bool]) -> None:
        removed = sorted(set(known) - self.ids.keys())
        if not removed:
            return
        if any(reads(topic) for topic in removed):
            raise deleted(next(topic for topic in removed if reads(topic)))
        one = len(removed) == 1
        what = f"the topic{'' if one else 's'} {', '.join(removed)}, which the stage does not read any more"
        give_back = f"give the stage its topic{'' if one else 's'} again"
        remaining = self.ids.keys() & set(known)
        raise WouldLoseData(
            f"the checkpoint has offsets of {what}",
            where=f"topic {removed[0]}",
            next_step=f"{give_back}; or {_WITHOUT_IT if remaining else _FRESH_START}",
        )


def require_kept(topic: str, position: Mapping[int, int], first: Mapping[int, int], ends: Mapping[int, int]) -> None:
    """Raises WouldLoseData if the brokers no longer have all events of the topic from this position on.

    `first`, `ends`: the partitions' current start and end offsets.
    """
    for partition, offset in sorted(position.items()):
        where = f"topic {topic}, partition {partition}, offset {offset}"
        if partition not in ends or offset > ends[partition]:
            end = f"ends at {ends[partition]}" if partition in ends else "is not there"
            raise WouldLoseData(
                f"the checkpoint lies beyond the topic's end: the partition {end}; it was recreated, or lost events",
                where=where,
                next_step=_FRESH_START,
            )
        if offset < first[partition]:
            raise WouldLoseData(
                f"the brokers have deleted {first[partition] - offset} events that were not read yet: "
                f"the partition begins at {first[partition]}",
                where=where,
                next_step=f"give the topic a longer retention; {FROM_THE_OLDEST}",
            )


def recreated(topic: str) -> WouldLoseData:
    return WouldLoseData(
        "the topic was deleted and recreated: at the checkpoint's offsets it has other events",
        where=f"topic {topic}",
        next_step=f"{_FRESH_START}; {_ACCEPT}",
    )


def deleted(topic: str) -> WouldLoseData:
    return WouldLoseData(
        "the topic, which the checkpoint has offsets of, was deleted",
        where=f"topic {topic}",
        next_step=_WITHOUT_IT,
    )


def last_planned(checkpoint: Texts) -> Position:
    """Where the last batch ends, done or not. It has all topics that Spark knows."""
    planned = checkpoint.batches("offsets")
    return offsets_in(checkpoint.read(f"offsets/{planned[-1]}") or "") if planned else {}


def record_of_position(checkpoint: Texts) -> str:
    """The name of Spark's record of the offsets from which the next start reads."""
    planned = checkpoint.batches("offsets")
    if planned and planned[-1] in checkpoint.batches("commits"):
        return f"offsets/{planned[-1]}"
    # The batch will be repeated: it starts where the one before it ended that is recorded, as with async progress not
    # every batch is; the first one at the initial offsets.
    return f"offsets/{planned[-2]}" if len(planned) > 1 else BEGINNING


def position_of(checkpoint: Texts) -> Position:
    """The first offsets that the next start reads, as Spark recorded them. Empty if they are unknown."""
    return offsets_in(checkpoint.read(record_of_position(checkpoint)) or "")


def offsets_in(text: str) -> Position:
    """The offsets in a record of Spark's."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    content = json.loads(lines[-1]) if lines else {}
    return {
        topic: {int(partition): int(offset) for partition, offset in partitions.items()}
        for topic, partitions in content.items()
    }
