"""The stream processor: its command line, configuration, Kafka clients, codecs and embedded stack.

Calls `stores` for local state; is called by the programs in `jobs/`, `edge_service/`, `sync_service/` and
`observe_service/`, never the other way round. For users' own jobs it has `enrich`, `failure_of` and `load`, imported
only when used: they bring Spark along.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enrich.config import load
    from enrich.stage.library import enrich
    from enrich.stage.task.failures import failure_of

__all__ = ["enrich", "failure_of", "load"]

_FROM = {"enrich": "enrich.stage.library", "failure_of": "enrich.stage.task.failures", "load": "enrich.config"}


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_FROM[name]), name)
