"""What became of the events of a minute on one way: by their topics, and by the nodes' word only where no topic can
show it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from enrich.audit.evidence import HopEvidence, Mark, WayEvidence
from enrich.tally import MergedTally, Node, NodeKind, Origins
from enrich.verdict.ways import Hop

Claims = Mapping[tuple[Node, str], MergedTally]
"""What nodes say, by route."""
Marked = Mapping[int, Origins]
"""Origins by their marks: a bit for each."""
_NOTHING = MergedTally()


@dataclass(frozen=True)
class AuditedHop:
    hop: Hop
    came: Origins
    went: Origins
    elsewhere: Origins
    """In the topics of other routes only, and the node does not say that it took this one."""
    dropped: Origins
    """In no topic, and the node says that a filter or a policy left them out: nothing else can show that."""
    dead: Origins
    waiting: Origins
    lost: Origins
    denied: Origins
    """Of the lost: the node says that they went."""


@dataclass(frozen=True)
class AuditedMinute:
    route: str
    minute: int
    came: Origins
    hops: Sequence[AuditedHop]

    @property
    def went(self) -> Origins:
        return self.hops[-1].went if self.hops else self.came

    @property
    def lost(self) -> Origins:
        return reduce(Origins.__or__, (hop.lost for hop in self.hops), Origins())


class Judge:
    """`delivered`: what the endpoints have, if it is known: then having been read is no proof of it."""

    def __init__(self, marks: Sequence[Mark], claims: Claims, delivered: Origins | None = None) -> None:
        self._bits = {mark: 1 << index for index, mark in enumerate(marks)}
        self._claims = claims
        self._delivered = delivered

    def judged(self, evidence: WayEvidence, minute: int, marked: Marked) -> AuditedMinute:
        came = given = self._with(evidence.entries, marked)
        hops: list[AuditedHop] = []
        for hop in evidence.hops:
            hops.append(self._at(hop, given, marked))
            given = hops[-1].went
        return AuditedMinute(evidence.way.name, minute, came, hops)

    def _at(self, evidence: HopEvidence, given: Origins, marked: Marked) -> AuditedHop:
        hop = evidence.hop
        said, here = self._claims.get((hop.node, ""), _NOTHING), self._claims.get((hop.node, hop.route), _NOTHING)
        if evidence.went:
            went = given & self._with(evidence.went, marked)
        elif self._delivered is not None and hop.node.kind is NodeKind.expel:
            went = given & self._delivered
        else:  # what was read, and is nowhere else, left the pipeline
            went = given - self._with([*evidence.waiting, *evidence.dead], marked)
        left = given - went
        waiting = left & self._with(evidence.waiting, marked)
        left = left - waiting
        dead = left & self._with(evidence.dead, marked)
        left = left - dead
        denied = left & here.went if evidence.went else Origins()
        left = left - denied
        elsewhere = left & self._with(evidence.elsewhere, marked)
        left = left - elsewhere
        dropped = left & said.dropped
        return AuditedHop(hop, given, went, elsewhere, dropped, dead, waiting, (left - dropped) | denied, denied)

    def _with(self, marks: Iterable[Mark], marked: Marked) -> Origins:
        wanted = sum({self._bits[mark] for mark in marks})
        return reduce(Origins.__or__, (some for bits, some in marked.items() if bits & wanted), Origins())
