"""Asks the page of a program, as it is configured, how the program is."""

import http.client
import json
import time
from http import HTTPStatus
from typing import Any

from enrich.base.http_watch import Ended, watched

_PIECE = 1 << 16
_MOST_BYTES = 64 << 20
_ENDLESS = "its answer does not end"
_LOCAL = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - compared, not listened on


def reached_at(listen: str) -> tuple[str, int]:
    """Host and port by which this host reaches who listens there: all addresses are none to connect to."""
    host, _, port = listen.rpartition(":")
    return _LOCAL.get(host, host), int(port)


def status_at(listen: str, pipeline: str, patience_s: float, most_bytes: int = _MOST_BYTES) -> dict[str, Any]:
    """What its `/status` says. Raises OSError if nothing answers, and ValueError if what answers is no program of this
    pipeline: another one may have the same address. `patience_s`: for each piece of the answer; twice that for all."""
    host, port = reached_at(listen)
    # Later than the connection's time-out, which tells one that says nothing from one that does not end.
    end_s = time.monotonic() + 2 * patience_s
    connection = http.client.HTTPConnection(host.strip("[]"), port, timeout=patience_s)
    try:
        with watched(lambda: _ENDLESS if time.monotonic() > end_s else None) as within:
            within.connect(connection)
            connection.request("GET", "/status")
            answer = connection.getresponse()
            if answer.status != HTTPStatus.OK:
                raise ValueError(f"its answer is HTTP {answer.status}")
            content = _read(answer, most_bytes)
    except Ended as ended:
        raise ValueError(str(ended)) from None
    except OSError:  # also where http.client makes it an HTTPException: the connection was closed before an answer
        raise
    except http.client.HTTPException as error:
        raise ValueError("its answer is not whole, or not HTTP") from error
    finally:
        connection.close()
    return _of_pipeline(pipeline, content)


def _read(answer: http.client.HTTPResponse, most_bytes: int) -> bytes:
    """Another program may send for ever."""
    content = bytearray()
    while piece := answer.read1(_PIECE):
        content += piece
        if len(content) > most_bytes:
            raise ValueError(_ENDLESS)
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
