"""The status of a program's routes over HTTP, also in Prometheus' text format."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from enrich.base.errors import ConfigError
from enrich.service.exposing import exposed
from enrich.service.page import Page, PageServer
from enrich.service.routes import RouteState, RouteStatus
from enrich.service.service import Service

_LABELS = ("route", "kind")
_Server = TypeVar("_Server")


@dataclass(frozen=True)
class Program:
    """What its page says about a program."""

    name: str
    """In the names of its metrics: `sync` is `enrich_sync_...`."""
    pipeline: str
    listen: str
    """Address of its page."""
    listen_key: str
    """The key of the configuration that the address is from."""


def serve_status(service: Service, program: Program) -> PageServer:
    """Raises ConfigError if it cannot listen on the address."""
    page = Page(
        metrics=lambda: exposition(service.statuses(), program),
        status=lambda: {"pipeline": program.pipeline, "routes": [shown(status) for status in service.statuses()]},
        stopped=lambda: {
            status.name: status.last_error for status in service.statuses() if status.state is RouteState.stopped
        },
        not_ready=lambda: dict(_not_ready(service.statuses())),
    )
    return serve_at(program, page)


def serve_at(program: Program, page: Page) -> PageServer:
    """Serves the page where the program has it. Raises ConfigError if it cannot listen on the address."""
    return listening(program.listen, program.listen_key, lambda host, port: PageServer(host, port, page))


def listening(listen: str, listen_key: str, serve: Callable[[str, int], _Server]) -> _Server:
    """Raises ConfigError, with the key that the address is from, if `serve` cannot listen there."""
    host, _, port = listen.rpartition(":")
    try:
        return serve(host.strip("[]"), int(port))
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {listen}: {error.strerror}",
            where=listen_key,
            next_step="choose another address",
        ) from error


def shown(status: RouteStatus) -> dict[str, Any]:
    """As it stands in `/status`."""
    return {name: value for name, value in asdict(status).items() if name not in ("is_of_interest", "is_ready")}


def _not_ready(statuses: Sequence[RouteStatus]) -> Iterator[tuple[str, str]]:
    for status in statuses:
        # A standby counts as ready: a rolling update waits until the new instance is ready before it stops the old one.
        if not status.is_ready and status.state not in (RouteState.running, RouteState.standby, RouteState.paused):
            yield status.name, status.last_error or status.state.value


def exposition(statuses: Sequence[RouteStatus], program: Program) -> bytes:
    return exposed(_Statuses(statuses, program.name), program.pipeline)


class _Statuses(Collector):
    def __init__(self, statuses: Sequence[RouteStatus], program: str) -> None:
        self._statuses = statuses
        self._prefix = f"enrich_{program}_"

    def collect(self) -> Iterator[Metric]:
        prefix = self._prefix
        state = GaugeMetricFamily(f"{prefix}state", "1 for the state of the route.", labels=(*_LABELS, "state"))
        lag = GaugeMetricFamily(f"{prefix}lag", "Records or rows that are not moved yet.", labels=_LABELS)
        rate = GaugeMetricFamily(f"{prefix}rows_per_second", "Over the last seconds.", labels=_LABELS)
        counters: dict[str, CounterMetricFamily] = {}
        gauges: dict[str, GaugeMetricFamily] = {}
        for status in self._statuses:
            labels = (status.name, status.kind.value)
            for one in RouteState:
                state.add_metric((*labels, one.value), float(status.state is one))
            if status.lag is not None:
                lag.add_metric(labels, status.lag)
            rate.add_metric(labels, status.rows_per_s)
            for name, total in status.counters.items():
                if name not in counters:
                    counters[name] = CounterMetricFamily(f"{prefix}{name}", _help_text(name), labels=_LABELS)
                counters[name].add_metric(labels, total)
            for name, value in status.gauges.items():
                if name not in gauges:
                    gauges[name] = GaugeMetricFamily(f"{prefix}{name}", _help_text(name), labels=_LABELS)
                gauges[name].add_metric(labels, value)
        yield from (state, lag, rate, *counters.values(), *gauges.values())


def _help_text(name: str) -> str:
    return f"{name.replace('_', ' ').capitalize()}."
