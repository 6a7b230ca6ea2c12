"""An HTTP server for status and metrics that slow clients cannot block or bring down, however many there are.

Each connection costs a thread and a descriptor, and is closed soon whatever its client does. When too many are open,
the oldest is closed for the newest: probes and scrapers have their answer long before theirs is the oldest.
"""

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from enrich.base.addresses import family_of

_CONNECTIONS = 64
_PATIENCE_S = 10.0
"""How long a connection may last: as long as Prometheus waits for an answer."""


class BoundedServer(ThreadingTCPServer):
    """Serves in its own threads. Raises OSError if it cannot listen on the address."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self, address: tuple[str, int], handler: Callable[[Any, Any, "BoundedServer"], BaseHTTPRequestHandler]
    ) -> None:
        self._open: dict[socket.socket, float] = {}
        """When each connection was accepted, the oldest first."""
        self._lock = threading.Lock()
        # The base class opens the socket with this, and has one value for all addresses.
        self.address_family = family_of(address[0])
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._open) >= _CONNECTIONS:
                self._cut(next(iter(self._open)))
            self._open[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def keep(self, request: Any) -> None:
        """The connection may last: whoever serves it bounds how many do."""
        with self._lock:
            self._open.pop(request, None)

    def service_actions(self) -> None:
        """Called on every pass of the loop. A handler's `timeout` restarts with every byte; this limit does not."""
        with self._lock:
            late = time.monotonic() - _PATIENCE_S
            for request in [request for request, since in self._open.items() if since < late]:
                self._cut(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnects before it has its answer is not logged."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def _cut(self, request: socket.socket) -> None:
        # Wakes up the thread of the connection, which then closes it.
        del self._open[request]
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)
