"""How a route begins beside rows that it does not know."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from enrich.base.errors import Retryable
from sync_service.writeback.generation import OFFSETS, Gate

TOPICS: Any = SimpleNamespace(identity=lambda _: ("an-id", [0]))


class Store:
    """Without a note, and with rows."""

    def __init__(self, rows: Iterator[Any]) -> None:
        self._rows = rows
        self.notes: list[str] = []

    def load_note(self, _: str) -> None: ...

    def save_note(self, name: str, _text: str, _known: None) -> bool:
        self.notes.append(name)
        return True

    def scan(self) -> Iterator[Any]:
        return self._rows


def gate_of(store: Any) -> Gate:
    return Gate(store, TOPICS, "rows", "plays", "out")


def test_its_generation_is_above_the_versions_of_all_rows() -> None:
    store = Store(SimpleNamespace(versions=versions) for versions in ([], [None], [3 * OFFSETS + 7, None], [9]))
    assert gate_of(store).enter(list).number == 4


def test_a_stop_ends_the_look_at_all_rows_and_leaves_no_note() -> None:
    stopping = threading.Event()
    seen: list[int] = []

    def rows() -> Iterator[Any]:
        for number in range(1_000):
            seen.append(number)
            stopping.set()
            yield SimpleNamespace(versions=[number])

    store = Store(rows())
    with pytest.raises(Retryable, match="a stop was requested before the route began"):
        gate_of(store).enter(list, is_stopping=stopping.is_set)
    assert (seen, store.notes) == ([0], [])
