"""What became of the events of a minute on one way: by name, and only as far as the nodes have said."""

from collections.abc import Sequence
from dataclasses import dataclass

from enrich.tally import Origins
from enrich.verdict.ways import Hop, Way
from observe_service.verdicts.books import Books


@dataclass(frozen=True)
class AtHop:
    """What became of events at one hop."""

    hop: Hop
    given: Origins
    """What came to it by this way."""
    went: Origins
    dropped: Origins
    dead: Origins
    waiting: Origins
    elsewhere: Origins
    """They took other routes only."""
    missing: Origins
    """Nothing was said of what became of them."""

    @property
    def unresolved(self) -> Origins:
        """What may still become something else."""
        return self.missing | self.waiting | self.dead


def judged(way: Way, given: Origins, books: Books) -> Sequence[AtHop]:
    at: list[AtHop] = []
    for hop in way.hops:
        at.append(_at(hop, given, books))
        given = at[-1].went
    return at


def _at(hop: Hop, given: Origins, books: Books) -> AtHop:
    node = books.of(hop.node)
    went = (books.of(hop.node, hop.route) if hop.route else node).went & given
    left = given - went
    if not left:  # mostly, and it is cheaper
        return AtHop(hop, given, went, left, left, left, left, left)
    elsewhere = left & node.went
    left = left - elsewhere
    dropped = left & node.dropped
    dead = (left - dropped) & node.only_dead
    waiting = (left - dropped - dead) & node.still_waiting
    return AtHop(hop, given, went, dropped, dead, waiting, elsewhere, left - dropped - dead - waiting)
