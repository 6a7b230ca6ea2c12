"""Stages: Spark jobs that join events with the tables of their host.

The driver's side is `run` (a running query) and `plan` (one DataFrame). The workers' side is `worker`, which uses
Arrow but not Spark. `task` is what travels between the two. `enrich` and `failure_of` are for users' own Spark jobs;
they are imported only when used, since the daemon of the workers chooses first which PySpark it imports.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enrich.stage.library import enrich
    from enrich.stage.task.failures import failure_of

__all__ = ["enrich", "failure_of"]

_FROM = {"enrich": "enrich.stage.library", "failure_of": "enrich.stage.task.failures"}


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_FROM[name]), name)
