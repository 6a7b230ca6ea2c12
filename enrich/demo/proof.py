"""Origins in = origins out: what the senders were told is taken, beside what the customers have."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from enrich.demo.places import Places

_NAMED = 20


@dataclass(frozen=True)
class Proof:
    """Each event by its origin, so that one that came twice does not stand for one that never came."""

    acknowledged: Places
    """What ingest answered for."""
    written: int
    """Records in the topic behind ingest. More than that where a sender did not hear that they were taken."""
    delivered: Mapping[str, Places]
    """By customer: what it took."""
    dead: Places
    """What became a dead letter of the stage."""
    repeated: Mapping[str, int]
    """By customer: events that came again."""

    @property
    def lost(self) -> Mapping[str, Places]:
        """By customer: what was acknowledged, and is neither delivered nor a dead letter."""
        return {name: self.acknowledged - (places | self.dead) for name, places in self.delivered.items()}

    @property
    def holds(self) -> bool:
        return not any(len(places) for places in self.lost.values())

    @property
    def dead_of_acknowledged(self) -> int:
        return len(self.acknowledged) - len(self.acknowledged - self.dead)

    def facts(self) -> Mapping[str, object]:
        """For machines."""
        lost = self.lost
        return {
            "acknowledged": len(self.acknowledged),
            "written": self.written,
            "written_twice": self.written - len(self.acknowledged),
            "delivered": {name: len(places) for name, places in self.delivered.items()},
            "dead_letters": len(self.dead),
            "duplicates": dict(self.repeated),
            "lost": {name: len(places) for name, places in lost.items()},
            "lost_origins": {name: list(islice(places, _NAMED)) for name, places in lost.items()},
            "holds": self.holds,
        }

    def told(self) -> str:
        """For people."""
        count, dead, lost = len(self.acknowledged), self.dead_of_acknowledged, self.lost
        out = " and ".join(f"{count - dead - len(places):,} at {name}" for name, places in lost.items())
        twice = ", ".join(f"{number:,} at {name}" for name, number in self.repeated.items())
        missing = sum(map(len, lost.values()))
        line = (
            f"{count:,} origins in = {out} + {dead:,} dead letters (plays of nobody); {missing:,} lost; came again: "
            f"{twice}; written again, since the sender heard no answer: {self.written - count:,}"
        )
        names = [f"{name} {origin}" for name, places in lost.items() for origin in islice(places, _NAMED)]
        return line if not names else f"{line}; LOST: {', '.join(names)}"
