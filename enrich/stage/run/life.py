"""The life of a stage, as a table of states. docs/architecture.md shows the same table."""

from collections.abc import Mapping
from enum import StrEnum

from enrich.base.machine import Machine


class Phase(StrEnum):
    STARTING = "starting"
    """Checks, and tables that are loaded on every host. A driver that ran before still runs."""
    TAKING_OVER = "taking over"
    """The driver before is shut out, and ends."""
    RUNNING = "running"
    DRAINING = "draining"
    """The batch under way is finished and recorded, then no other begins."""
    ENDED = "ended"


class Happening(StrEnum):
    READY = "everything is checked and loaded"
    ALONE = "no other driver is at work"
    STOP = "a signal or `enrich stop` asks for the end"
    DRAINED = "the last batch is recorded"
    STOPPED = "somebody stopped the query itself"
    FAILED = "it cannot go on: an error says why"


NEXT: Mapping[tuple[Phase, Happening], Phase] = {
    (Phase.STARTING, Happening.READY): Phase.TAKING_OVER,
    (Phase.STARTING, Happening.STOP): Phase.ENDED,
    (Phase.STARTING, Happening.FAILED): Phase.ENDED,
    (Phase.TAKING_OVER, Happening.ALONE): Phase.RUNNING,
    (Phase.TAKING_OVER, Happening.STOP): Phase.ENDED,
    (Phase.TAKING_OVER, Happening.FAILED): Phase.ENDED,
    (Phase.RUNNING, Happening.STOP): Phase.DRAINING,
    (Phase.RUNNING, Happening.STOPPED): Phase.ENDED,
    (Phase.RUNNING, Happening.FAILED): Phase.ENDED,
    (Phase.DRAINING, Happening.DRAINED): Phase.ENDED,
    (Phase.DRAINING, Happening.FAILED): Phase.ENDED,
}


def new_life() -> Machine[Phase, Happening]:
    return Machine(NEXT, Phase.STARTING)
