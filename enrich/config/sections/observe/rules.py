"""Rules of the section `observe`."""

from collections.abc import Iterator
from datetime import timedelta

from enrich.config.messages.problems import Finding
from enrich.config.sections.pipeline import Pipeline

_LEAST, _LONGEST, _A_DAY = timedelta(seconds=10), timedelta(hours=1), timedelta(days=1)
_LOCAL = ("localhost", "127.0.0.1", "[::1]")


def observe_rules(pipeline: Pipeline) -> Iterator[Finding]:
    observe = pipeline.observe
    if observe is None:
        return
    if pipeline.tallies is False:
        message = "without tallies nobody says what became of the events"
        yield Finding(("tallies",), message, about=(("observe",),))
    if not observe.sla.p95:
        yield Finding(("observe", "sla", "p95"), "must be more than 0")
    if not _LEAST <= observe.loss.settle <= _LONGEST:
        yield Finding(("observe", "loss", "settle"), "must be between 10s and 1h")
    if observe.loss.keep < _A_DAY:
        yield Finding(("observe", "loss", "keep"), "must be at least 1d")
    if observe.token is None and observe.listen.rpartition(":")[0] not in _LOCAL:
        message = "is needed: the page can be reached from other hosts"
        yield Finding(("observe", "token"), message, about=(("observe", "listen"),))
    if observe.alarms.secret is not None and observe.alarms.webhook is None:
        yield Finding(("observe", "alarms", "secret"), "needs webhook")
