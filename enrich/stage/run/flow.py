"""How events pass through a running stage: in Spark's batches, or through slots."""

from collections.abc import Mapping
from typing import Protocol

from enrich.base.errors import EnrichError
from enrich.stage.measure.metrics import StageMetrics
from enrich.stage.plan.plan import StagePlan
from enrich.stage.progress.source_topics import SourceTopics
from enrich.stage.progress.source_watch import SourceWatch


class Flow(Protocol):
    """Its methods are called in this order, by one thread. They raise errors of our tree."""

    @property
    def plan(self) -> StagePlan: ...

    @property
    def source(self) -> SourceTopics: ...

    @property
    def metrics(self) -> StageMetrics: ...

    def shut_out(self) -> None:
        """Fences whoever else writes for this stage."""

    def take_over(self) -> None:
        """No other driver runs any more."""

    def begin(self, watch: SourceWatch) -> None:
        """`watch`: what has become of the source's topics."""

    def has_ended(self, within_s: float) -> bool:
        """Waits for it so long. Raises why it failed."""

    def look(self) -> None:
        """Once a second. Raises Fenced if another driver took over."""

    def drain(self) -> None:
        """Returns once it has ended, with all of its progress recorded."""

    def end(self, failure: EnrichError | None) -> bool:
        """Whatever is still there. Returns whether all of it is counted."""

    def totals(self) -> Mapping[str, int]:
        """Since the start, by `events`, `dropped` and `dead_letters`."""
