"""What the agent and a process that loads a table for it say to each other, over a pipe that only they have.

The loading process asks, the agent answers, one at a time. What is sent are pickled objects of this very program:
both ends are forks of one process.
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
    """The first word, the agent's: what to load."""

    table: str
    answer: Answer
    connection: Connection
    head_start: Snapshot | None


class Task(Protocol):
    """Another first word: something that a process of its own does, who asks for nothing on the way."""

    def __call__(self, pipeline: Pipeline, paths: StorePaths) -> Any: ...


@dataclass(frozen=True)
class Done:
    """The last word of a task."""

    result: Any


@dataclass(frozen=True)
class Request:
    """Something that only the agent can do or know."""

    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Outcome:
    """The last word: how the load ended."""

    loaded: Loaded | None


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
    """The agent's side, until the load has ended. Raises what ended it; EOFError when its process did.

    Returns None when it should stop, although the load says nothing: its last steps may take minutes.
    """
    while True:
        while not pipe.poll(_LOOK_EVERY_S):
            if should_stop():
                return None
        said = pipe.recv()
        if isinstance(said, EnrichError):
            raise said
        if isinstance(said, Outcome):
            return said.loaded
        try:
            answer = answers[said.name](*said.arguments)
        except EnrichError as error:
            answer = error
        pipe.send(answer)
