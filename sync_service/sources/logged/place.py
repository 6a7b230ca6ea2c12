"""What survives a restart: how far the log is in the topics, and what of it each table's topic has already."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stores.external.postgres.log.visibility import Visibility
from sync_service.sources.logged.headers import Stamps


@dataclass(frozen=True, slots=True)
class Place:
    """All transactions that were committed before `at` are in the topics of tables that are followed."""

    system: str
    """Of the database cluster: another one has another log."""
    timeline: int
    """Rises when a standby takes over. It may not have got the end of the log, which is in the topics then."""
    slot: str
    at: int
    version: int = 0
    """The newest that a record has."""
    time_ms: int = 0
    """The latest that a record of the log has."""

    @property
    def stamps(self) -> Stamps:
        return Stamps(self.version, self.time_ms)


@dataclass(frozen=True, slots=True)
class TableState:
    """How a table stands to its topic. The first one: the topic has to be compared with the table."""

    relation: int = 0
    """The table's id in the database."""
    topic_id: str = ""
    key: Sequence[str] = ()
    shape: str = ""
    """Of the rows when the topic was compared with the table last. Empty: it has to be compared before it is
    followed."""
    seen: str = ""
    """What the comparison's snapshot sees is in the topic too."""
    seen_until: int = 0
    """From there on the log has nothing that the snapshot sees."""
    time_ms: int = 0
    """When the comparison had ended: what follows has no earlier time."""
    storage: Sequence[str] = ()
    """Of the table just before that comparison. Empty: it was noted by a release that did not look."""
    schema_id: int | None = None
    """Of the registry."""
    is_sure: bool = False
    """The log has told of the table from a comparison on: what is missing in the table was deleted."""
    encoding: str = ""
    """How its rows became records. Empty: it was noted by a release that did not look."""

    @property
    def is_followed(self) -> bool:
        return self.shape != ""

    def has_more_than(self, at: int) -> bool:
        """Whether the comparison may have seen something of the log behind `at`."""
        return self.seen != "" and at < self.seen_until

    def has(self, xids: npt.NDArray[np.int64], at: int) -> npt.NDArray[np.bool_]:
        """Which transactions of the log, from `at` on, the comparison has put there already."""
        if not self.has_more_than(at):
            return np.zeros(len(xids), np.bool_)
        return Visibility(self.seen).sees(xids)

    def passed(self, at: int) -> "TableState":
        """Without what is of no use from there on."""
        return replace(self, seen="", seen_until=0) if self.seen and not self.has_more_than(at) else self

    def unsettled(self) -> "TableState":
        """It has to be compared again."""
        return replace(self, shape="", seen="", seen_until=0)

    def anew(self) -> "TableState":
        """The same, and of what is missing in the table the log has not told that it was deleted."""
        return replace(self.unsettled(), is_sure=False)

    def of_unknown_versions(self) -> "TableState":
        """The same, and which versions the topic has is read from it."""
        return replace(self.anew(), topic_id="")
