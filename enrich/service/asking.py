"""Asks the page of a program, as it is configured, how the program is."""

import http.client
import json
from typing import Any

_LOCAL = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - compared, not listened on


def reached_at(listen: str) -> tuple[str, int]:
    """Host and port by which this host reaches who listens there: all addresses are none to connect to."""
    host, _, port = listen.rpartition(":")
    return _LOCAL.get(host, host), int(port)


def status_at(listen: str, patience_s: float, most_bytes: int | None = None) -> dict[str, Any]:
    """What its `/status` says. Raises OSError, ValueError and http.client.HTTPException."""
    host, port = reached_at(listen)
    connection = http.client.HTTPConnection(host.strip("[]"), port, timeout=patience_s)
    try:
        connection.request("GET", "/status")
        answer = json.loads(connection.getresponse().read(most_bytes))
    finally:
        connection.close()
    if not isinstance(answer, dict):
        raise ValueError("it answers something else than a status")
    return answer
