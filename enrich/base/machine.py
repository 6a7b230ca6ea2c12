"""A small state machine that reads as a table: in this state, when this happens, that state comes next."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Generic, TypeVar

from enrich.base.errors import Fatal

State = TypeVar("State", bound=StrEnum)
Event = TypeVar("Event", bound=StrEnum)


class Machine(Generic[State, Event]):
    """For one thread."""

    def __init__(self, table: Mapping[tuple[State, Event], State], first: State) -> None:
        self._table = table
        self.state = first

    def happens(self, event: Event) -> None:
        """Raises Fatal for what cannot happen in this state: a bug of the caller."""
        following = self._table.get((self.state, event))
        if following is None:
            raise Fatal(f"`{event}` cannot happen while {self.state}", next_step="this is a bug in enrich: report it")
        self.state = following
