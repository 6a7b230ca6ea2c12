"""What the retrier forwards it forwards once, and says so before its offsets are committed."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Message

from edge_service.retrier.forwarding import Forwarding, Sorted
from edge_service.retrier.route import _Work
from enrich.base.errors import Retryable, Unreachable


class Killed(BaseException): ...


class Producer:
    """It commits, and its process is killed then."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        yield
        raise Killed

    def produce_all(self, *_: object) -> None: ...

    def send_offsets(self, *_: object) -> None: ...


def test_what_is_committed_was_said_before() -> None:
    forwarding, said = Forwarding.__new__(Forwarding), list[str]()
    forwarding._producer, forwarding._plan = cast(Any, Producer()), cast(Any, SimpleNamespace(retry_out="out"))
    with pytest.raises(Killed):
        forwarding.forward(Sorted([], [], []), [], None, lambda: said.append("said"))
    assert said == ["said"]


def test_a_batch_of_which_nobody_knows_whether_it_was_forwarded_is_not_forwarded_again() -> None:
    """The offsets of the group say it, to whoever begins again from there."""
    closed: list[str] = []
    work: Any = _Work.__new__(_Work)
    work._forwarding = SimpleNamespace(is_open=True, close=lambda: closed.append("closed"))
    with pytest.raises(Retryable, match="no answer") as raised:
        work._failed(Unreachable("no answer"), [Message(topic="in", partition=0, offset=5)])
    assert raised.value.next_step == "the route begins again by itself"
    assert closed == ["closed"]
