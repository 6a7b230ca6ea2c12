"""What the agent's loop knows of a table: somebody keeps it, says what is new, and how it stands."""

from typing import Protocol

from enrich.base.errors import EnrichError
from enrich.host.claims.watch import Answer
from enrich.host.follow.tailer import Tailed
from enrich.host.ipc.header import TableState
from stores.rocks import Prepared


class Keeper(Protocol):
    """Keeps one table as its source is. The loop calls everything from its one thread and is never held up.

    Whatever a call raises is told to `failed`, and concerns this table only.
    """

    @property
    def name(self) -> str: ...

    @property
    def topic(self) -> str | None:
        """Whose records and answers it wants to be told."""

    def hear(self, answer: Answer | EnrichError) -> None:
        """What the brokers say of the topic."""

    def step(self) -> None:
        """Starts what is due and takes what is done."""

    def update(self, tailed: Tailed | None) -> Prepared | None:
        """What is to be published next, from what came of the topic."""

    def failed(self, error: Exception) -> None:
        """One of these calls has raised this, or the store cannot take what `update` handed out: the table stands
        still, and what was handed out is brought again."""

    def state(self) -> TableState:
        """For readers, after the publication."""

    def close(self) -> None:
        """Ends what it started."""
