"""The interface by which the agent's loop keeps a table up to date."""

from typing import Protocol

from enrich.base.errors import EnrichError
from enrich.host.claims.watch import Answer
from enrich.host.follow.tailer import Tailed
from enrich.host.ipc.header import TableState
from stores.rocks import Prepared


class Keeper(Protocol):
    """Keeps one table as its source is. The loop calls all methods from its one thread; none may block.

    What a call raises concerns this table only: the loop passes it to `failed`.
    """

    @property
    def name(self) -> str: ...

    @property
    def topic(self) -> str | None:
        """The topic whose records and answers it wants; None for a table without a topic."""

    @property
    def is_at_rest(self) -> bool:
        """Whether `step` and `update` have nothing to do until records come. Now and then they are called anyway."""

    def hear(self, answer: Answer | EnrichError) -> None:
        """Takes the brokers' answer about the topic."""

    def step(self) -> None:
        """Starts work that is due and takes the results of work that is done."""

    def update(self, tailed: Tailed | None) -> Prepared | None:
        """What to publish next, made from what was polled from the topic."""

    def failed(self, error: Exception) -> None:
        """One of these calls has raised this error, or the store could not write what `update` returned. The table
        makes no progress, and `update` will return the same changes again."""

    def state(self) -> TableState:
        """The state for the header, asked after each publication."""

    def close(self) -> None:
        """Stops the work that it started."""
