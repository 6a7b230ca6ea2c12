"""Asks the page of a program, as it is configured, how the program is."""

import http.client
import json
import time
from http import HTTPStatus
from typing import Any

_PIECE = 1 << 16
_MOST_BYTES = 64 << 20
_LOCAL = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - compared, not listened on


def reached_at(listen: str) -> tuple[str, int]:
    """Host and port by which this host reaches who listens there: all addresses are none to connect to."""
    host, _, port = listen.rpartition(":")
    return _LOCAL.get(host, host), int(port)


def status_at(listen: str, pipeline: str, patience_s: float, most_bytes: int = _MOST_BYTES) -> dict[str, Any]:
    """What its `/status` says. Raises OSError if nothing answers, and ValueError if what answers is no program of this
    pipeline: another one may have the same address."""
    host, port = reached_at(listen)
    connection = http.client.HTTPConnection(host.strip("[]"), port, timeout=patience_s)
    try:
        connection.request("GET", "/status")
        answer = connection.getresponse()
        if answer.status != HTTPStatus.OK:
            raise ValueError(f"its answer is HTTP {answer.status}")
        content = _read(answer, time.monotonic() + patience_s, most_bytes)
    except OSError:  # also where http.client makes it an HTTPException: the connection was closed before an answer
        raise
    except http.client.HTTPException as error:
        raise ValueError("its answer is not whole, or not HTTP") from error
    finally:
        connection.close()
    return _of_pipeline(pipeline, content)


def _read(answer: http.client.HTTPResponse, end_s: float, most_bytes: int) -> bytes:
    """Another program may send for ever. The connection's time-out is for each of its pieces."""
    content = bytearray()
    while piece := answer.read1(_PIECE):
        content += piece
        if len(content) > most_bytes or time.monotonic() > end_s:
            raise ValueError("its answer does not end")
    if answer.length:
        raise http.client.IncompleteRead(bytes(content))
    return bytes(content)


def _of_pipeline(pipeline: str, content: bytes) -> dict[str, Any]:
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not isinstance(said.get("pipeline"), str):
        raise ValueError("its answer is no status of a pipeline's program")
    if said["pipeline"] != pipeline:
        raise ValueError(f"it is of the pipeline {said['pipeline']!r}, not of {pipeline!r}")
    return said
