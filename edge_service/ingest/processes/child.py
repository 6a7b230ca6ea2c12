"""One of several: `python -m edge_service.ingest.processes.child NUMBER DESCRIPTOR`, started by `parent.Parent`.

The pipeline comes through stdin, with its secrets; reports go to the descriptor, whose other end is the parent's.
"""

import json
import os
import socket
import sys
from typing import Any

from edge_service.ingest.processes.planning import addresses_of, of_process
from edge_service.ingest.processes.reports import ProcessReport
from edge_service.ingest.processes.worker import Worker
from enrich.base.error_wire import to_wire
from enrich.base.errors import EnrichError
from enrich.base.exits import DONE, outcome
from enrich.base.logs import LogFormat, LogLevel, setup_logs
from enrich.config.wire import from_wire
from enrich.service.program import leave


def main() -> int:
    number, reports = int(sys.argv[1]), socket.socket(fileno=int(sys.argv[2]))
    plan = json.loads(sys.stdin.buffer.read())
    setup_logs(LogFormat(plan["logs"]["format"]), LogLevel(plan["logs"]["level"]))
    return outcome(lambda: _serve(plan, number, reports))


def _serve(plan: dict[str, Any], number: int, reports: socket.socket) -> int:
    pipeline = from_wire(plan["pipeline"])
    reports.setblocking(False)

    def report(whole: ProcessReport) -> None:
        try:
            reports.send(whole.to_wire())
        except BlockingIOError:
            pass  # the parent is busy: it gets the next one
        except OSError:
            worker.stop()  # it is gone

    worker = Worker(pipeline, of_process(addresses_of(pipeline), number), plan["ports"], report)
    try:
        worker.run(parent=reports.fileno())
    except EnrichError as error:
        reports.setblocking(True)
        reports.send(b"!" + json.dumps(to_wire(error)).encode())
        os._exit(DONE)  # the parent says what was wrong
    leave()


if __name__ == "__main__":
    sys.exit(main())
