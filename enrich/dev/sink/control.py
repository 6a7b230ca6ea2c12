"""What others may ask for at run time, below `/-/`: what came, and how to behave."""

import json
from http import HTTPStatus
from typing import Any

import msgspec

from enrich.base.errors import ConfigError
from enrich.dev.sink.behaviour import Reaction, rules_from
from enrich.dev.sink.receiver import Receiver, Request
from enrich.dev.sink.seen import PathSeen

PREFIX = "/-/"
_JSON = b"content-type: application/json\r\n"


def controlled(request: Request, receiver: Receiver) -> Reaction:
    """Does what the request asks for."""
    match request.method, request.path:
        case "GET", "/-/seen":
            return _answer(seen_by(receiver))
        case "GET", "/-/origins":
            return _answer({path: seen.shown_origins() for path, seen in receiver.seen.items()})
        case "DELETE", "/-/seen":
            receiver.forget()
        case "GET", "/-/behaviour":
            pass
        case "PUT", "/-/behaviour":
            try:
                receiver.behaviours.put(rules_from(request.body))
            except ConfigError as error:
                return _answer({"error": str(error)}, HTTPStatus.BAD_REQUEST)
        case "DELETE", "/-/behaviour":
            receiver.behaviours.clear()
        case _:
            ways = "GET or DELETE /-/seen, GET /-/origins, GET, PUT or DELETE /-/behaviour"
            return _answer({"error": f"try {ways}"}, HTTPStatus.NOT_FOUND)
    if request.path == "/-/seen":
        return _answer({})
    return Reaction(headers=_JSON, body=msgspec.json.encode(receiver.behaviours.shown()))


def seen_by(receiver: Receiver) -> dict[str, Any]:
    """Of all paths together, then path by path."""
    total: dict[str, Any] = dict(PathSeen().shown())
    for seen in receiver.seen.values():
        for name, count in seen.shown().items():
            if isinstance(count, int):
                total[name] += count
        for answer, count in seen.answers.items():
            total["answers"][answer] = total["answers"].get(answer, 0) + count
    return {**total, "paths": {path: seen.shown() for path, seen in sorted(receiver.seen.items())}}


def _answer(content: Any, status: HTTPStatus = HTTPStatus.OK) -> Reaction:
    return Reaction(status, headers=_JSON, body=json.dumps(content).encode() + b"\n")
