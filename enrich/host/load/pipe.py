"""The messages between the agent and a process that loads a table for it, over a pipe that only these two have.

The loading process asks, the agent answers, one request at a time. Messages are pickled objects: both ends are forks
of one process, so they run the same code.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from typing import Any, Protocol

from enrich.base.errors import EnrichError
from enrich.config import Pipeline
from enrich.host.claims.watch import Answer
from enrich.host.ipc.store_paths import StorePaths
from enrich.host.load.loading import Loaded
from enrich.kafka import Connection
from stores.snapshots import Snapshot

_LOOK_EVERY_S = 0.1


@dataclass(frozen=True)
class Job:
    """The agent's first message: what to load."""

    table: str
    answer: Answer
    connection: Connection
    head_start: Snapshot | None


class Task(Protocol):
    """Another first message: work for a process of its own, which makes no requests meanwhile."""

    def __call__(self, pipeline: Pipeline, paths: StorePaths) -> Any: ...


@dataclass(frozen=True)
class Request:
    """The loading process asks for something that only the agent can do or know."""

    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Done:
    """The last message: a task's result, or what was loaded; None when the load was stopped."""

    result: Any


def ask(pipe: Pipe, name: str, *arguments: Any) -> Any:
    """The loading process's side of a request. Raises what the agent's side raised."""
    pipe.send(Request(name, arguments))
    answer = pipe.recv()
    if isinstance(answer, EnrichError):
        raise answer
    return answer


def serve(
    pipe: Pipe, answers: Mapping[str, Callable[..., Any]], should_stop: Callable[[], bool] = lambda: False
) -> Loaded | None:
    """The agent's side: answers requests until the load has ended. Raises the load's error, EOFError if its process
    died.

    Returns None as soon as `should_stop`, even if the load sends nothing: its last steps may take minutes.
    """
    while True:
        while not pipe.poll(_LOOK_EVERY_S):
            if should_stop():
                return None
        message = pipe.recv()
        if isinstance(message, EnrichError):
            raise message
        if isinstance(message, Done):
            loaded: Loaded | None = message.result
            return loaded
        try:
            answer = answers[message.name](*message.arguments)
        except EnrichError as error:
            answer = error
        pipe.send(answer)
