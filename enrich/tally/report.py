"""What a node says: tallies, and how far it has read."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from enrich.tally.lags import NO_LAG, Lag
from enrich.tally.origins import Origins, Read

NO_MINUTE = None
"""The minute of origins is known where the events came in; those after it need not know it."""


class NodeKind(IntEnum):
    """The numbers are in the topic: never give one to another kind."""

    ingest = 1
    stage = 2
    expel = 3
    retrier = 4
    writeback = 5


@dataclass(frozen=True, slots=True)
class Node:
    pipeline: str
    kind: NodeKind
    name: str
    """Of the entry, the stage or the route, as in the configuration."""


NOWHERE = Origins()


@dataclass(frozen=True, slots=True)
class Tally:
    """Of one route and one event-time minute. The same origin may be in several sets; see `MergedTally`."""

    route: str = ""
    """Of a stage. Empty: of all that came to the node."""
    minute: int | None = NO_MINUTE
    """Whole minutes since 1970, of event time. Origins without a minute belong to the one in which they came in."""
    came: Origins = NOWHERE
    went: Origins = NOWHERE
    """Acknowledged by whoever is next."""
    dropped: Origins = NOWHERE
    """On purpose: a filter, a policy."""
    dead: Origins = NOWHERE
    waiting: Origins = NOWHERE
    """In a topic of retries."""
    lag: Lag = NO_LAG

    @property
    def known(self) -> Origins:
        """All that anything is said of."""
        return self.came | self.went | self.dropped | self.dead | self.waiting


@dataclass(frozen=True, slots=True)
class Report:
    """What a node says at once. Its id is the reporter with the sequence: what was said with it before is not added."""

    node: Node
    reporter: str
    """Who says it: a run of a program, with an id that no other has; or whatever gives the same sequence to the same
    events for ever, such as a stage's query and a partition."""
    sequence: int
    """Rises from report to report. Of a stage, the first offset."""
    at_ms: int
    """When it was made, on the reporter's clock."""
    tallies: Sequence[Tally] = ()
    """One at most has a lag of each route and minute."""
    reads: Sequence[Read] = ()
    """What is settled by then of the partitions that it reads. All of it is in this report or in one before."""
