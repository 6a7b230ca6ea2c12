"""Processes one batch while the next one is read: decoding and sorting release the GIL."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

_Batch = TypeVar("_Batch")
_Result = TypeVar("_Result")


class OneBehind(Generic[_Batch, _Result]):
    """Processes one batch at a time in a thread. `then` gets each result in the caller's thread, in order."""

    def __init__(self, work: Callable[[_Batch], _Result], then: Callable[[_Result], object] = lambda _: None) -> None:
        self._work = work
        self._then = then
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="behind")
        self._under_way: Future[_Result] | None = None

    def add(self, batch: _Batch) -> None:
        """Returns when the previous batch is done and this one is submitted. Raises what the previous batch raised."""
        self.finish()
        self._under_way = self._thread.submit(self._work, batch)

    def finish(self) -> None:
        """Returns when all batches are done. Raises what the last one raised."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            self._then(under_way.result())

    def __enter__(self) -> "OneBehind[_Batch, _Result]":
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(wait=True)
