"""The role `ingest`: serves all entries of the section `ingest`, in this process, or in several of which this is the
parent."""

import logging
import os
import signal
from collections.abc import Mapping, Sequence
from types import FrameType

from edge_service.ingest.processes.metrics import exposition
from edge_service.ingest.processes.overview import Overview
from edge_service.ingest.processes.planning import Address, addresses_of, reserved
from edge_service.ingest.processes.reports import ProcessReport, ProcessState
from enrich.config import Pipeline
from enrich.service.page import Page, PageServer
from enrich.service.program import exit_after, leave
from enrich.service.status import Program, serve_at, shown

_log = logging.getLogger("enrich.ingest")

_STOP_S = 27.0
"""If stopping takes longer, something hangs: exit anyway."""


def run(pipeline: Pipeline) -> int:
    """Until it is stopped. Raises ConfigError if there is nothing to serve, or it cannot be served as configured."""
    addresses = addresses_of(pipeline)
    with reserved(addresses) as ports:
        overview = Overview(addresses, ports)
        page = _page(pipeline, overview)
        _log.info("the status is on http://%s/status", page.address)
        try:
            if max(address.processes for address in addresses) == 1:
                _serve_here(pipeline, addresses, ports, overview)
            else:
                _serve_below(pipeline, addresses, ports, overview)
            _log.info("stopped: every request that was begun is answered")
        finally:
            page.close()
    return leave()


def _page(pipeline: Pipeline, overview: Overview) -> PageServer:
    page = Page(
        metrics=lambda: exposition(overview, pipeline.name),
        status=lambda: {
            "pipeline": pipeline.name,
            "routes": [shown(status) for status in overview.statuses()],
            "processes": overview.processes(),
        },
        stopped=overview.hanging,
        not_ready=overview.not_ready,
    )
    return serve_at(Program("ingest", pipeline.name, pipeline.pages.ingest, "pages.ingest"), page)


def _serve_here(pipeline: Pipeline, addresses: Sequence[Address], ports: Mapping[str, int], overview: Overview) -> None:
    """One process is enough. A parent would be a second interpreter."""
    from edge_service.ingest.processes.worker import Worker

    has_served = False

    def report(whole: ProcessReport) -> None:
        nonlocal has_served
        overview.heard(0, os.getpid(), whole)
        if whole.state is ProcessState.serving and not has_served:
            has_served = True
            overview.announce()

    overview.heard(0, os.getpid(), ProcessReport())
    Worker(pipeline, addresses, ports, report).run()


def _serve_below(
    pipeline: Pipeline, addresses: Sequence[Address], ports: Mapping[str, int], overview: Overview
) -> None:
    from edge_service.ingest.processes.parent import Parent

    parent = Parent(pipeline, addresses, ports, overview)

    def stop(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
        if not overview.is_leaving:
            exit_after(_STOP_S)
        parent.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    parent.run()
