"""The status of the service's routes over HTTP."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from enrich.base.errors import ConfigError
from enrich.service.page import Page, PageServer
from sync_service.metrics import exposition
from sync_service.routes import RouteState, RouteStatus
from sync_service.service import Service


def serve_status(service: Service, pipeline: str, listen: str) -> PageServer:
    """Raises ConfigError if it cannot listen on the address."""
    host, _, port = listen.rpartition(":")
    page = Page(
        metrics=lambda: exposition(service.statuses()).encode(),
        status=lambda: {"pipeline": pipeline, "routes": [_shown(status) for status in service.statuses()]},
        stopped=lambda: {
            status.name: status.last_error for status in service.statuses() if status.state is RouteState.stopped
        },
        not_ready=lambda: dict(_not_ready(service.statuses())),
    )
    try:
        return PageServer(host.strip("[]"), int(port), page)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {listen}: {error.strerror}", where="sync.listen", next_step="choose another address"
        ) from error


def _shown(status: RouteStatus) -> dict[str, Any]:
    return {name: value for name, value in asdict(status).items() if name != "is_of_interest"}


def _not_ready(statuses: Sequence[RouteStatus]) -> Iterator[tuple[str, str]]:
    for status in statuses:
        # A standby counts as ready: a rolling update waits until the new instance is ready before it stops the old one.
        if status.state not in (RouteState.running, RouteState.standby, RouteState.paused):
            yield status.name, status.last_error or status.state.value
