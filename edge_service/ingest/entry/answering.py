"""How a request gets its answer: once, also if what became of it is known only later."""

from typing import Protocol

from edge_service.ingest.wire.connection import Answer, Done


class Answering(Protocol):
    def __call__(self, answer: Answer) -> None:
        """What became of the request, for good."""

    def for_now(self, answer: Answer) -> None:
        """What its sender is told who does not wait any longer. What became of it is still to come, by a call."""


class Once:
    """See `Answering`. Its sender gets the first answer, and none after that."""

    __slots__ = ("_done",)

    def __init__(self, done: Done) -> None:
        self._done: Done | None = done

    @property
    def is_given(self) -> bool:
        return self._done is None

    def __call__(self, answer: Answer) -> None:
        # What is answered is let go, with its body, however long somebody still knows of it.
        done, self._done = self._done, None
        if done is not None:
            done(answer)

    for_now = __call__
