"""Describes the entries of an address by OpenAPI 3.1, for senders and their tools."""

import json
from collections.abc import Mapping
from typing import Any

from edge_service.ingest.reading.formats import TYPES
from enrich.config import Format, Ingest, Invalid

_PROBLEM = "application/problem+json"
_EVENT = {"type": "object", "description": "An event. Its bytes are kept as they are sent."}
_BODIES: Mapping[str, Any] = {
    "application/json": {"schema": {"oneOf": [_EVENT, {"type": "array", "items": _EVENT, "minItems": 1}]}},
    "application/x-ndjson": {"schema": {"type": "string", "description": "An event a line."}},
}
_REFUSALS: Mapping[str, str] = {
    "400": "The body cannot be read: not strict JSON, damaged, or without an event. Nothing is written.",
    "401": "No token, or one that is not known. Nothing is written.",
    "403": "The token may not send events here. Nothing is written.",
    "408": "The request did not come within its time. Nothing is written.",
    "413": "More bytes or events than a request may have. Nothing is written.",
    "415": "A media type or content coding that is not taken. Nothing is written.",
    "422": "Events are bad: each is named. Or the Idempotency-Key was sent with another body. Nothing is written.",
    "429": "More than may be in flight, or than the token may send: come again after Retry-After. Nothing is written.",
    "431": "The head of the request is too large. Nothing is written.",
    "503": "Not acknowledged in time. What was sent may be written, or a part of it: send it again.",
}
_RETRIED = ("429", "503")


def description(pipeline: str, entries: Mapping[str, Ingest]) -> bytes:
    """The document, as JSON. It names no topic and no token."""
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": f"Events for {pipeline}",
            "version": "1",
            "description": "A 2xx says that every event of the request is acknowledged by the in-sync replicas.",
        },
        "paths": {entry.path: {"post": _operation(name, entry)} for name, entry in entries.items()},
        "components": {
            "schemas": {"Accepted": _ACCEPTED, "Problem": _PROBLEM_SCHEMA, "BadEvent": _BAD_EVENT},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
    return json.dumps(document, separators=(",", ":")).encode()


def _operation(name: str, entry: Ingest) -> dict[str, Any]:
    guarded = entry.tokens is not None or entry.tenants is not None
    left_out = set() if guarded else {"401"}
    left_out |= set() if entry.tenants is not None else {"403"}
    refusals = {status: _refusal(status, text) for status, text in _REFUSALS.items() if status not in left_out}
    most = f"At most {entry.max_body} bytes, {entry.max_inflated} without compression"
    single = "one event" if entry.format is not Format.json else f"{entry.max_events} events"
    return {
        "operationId": f"send_{name}",
        "summary": f"Send events to {name}",
        "security": [{"token": []}] if guarded else [],
        "parameters": _PARAMETERS,
        "requestBody": {
            "required": True,
            "description": f"{most}, {single}.",
            "content": {
                kind.decode(): _BODIES.get(kind.decode(), {"schema": _single(entry)}) for kind in TYPES[entry.format]
            },
        },
        "responses": {"200": _accepted(entry), **refusals},
    }


def _single(entry: Ingest) -> dict[str, Any]:
    if entry.format is Format.string:
        return {"type": "string", "description": "One event: UTF-8 text."}
    text = "One Avro record." if entry.format is Format.avro else "One event."
    return {"type": "string", "format": "binary", "description": text}


def _accepted(entry: Ingest) -> dict[str, Any]:
    text = "Every event is written."
    if entry.invalid is Invalid.dlq:
        text = "Every event is written; the bad ones, which are named, as dead letters."
    return {
        "description": text,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Accepted"}}},
    }


def _refusal(status: str, text: str) -> dict[str, Any]:
    content = {_PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    response: dict[str, Any] = {"description": text, "content": content}
    if status in _RETRIED:
        header = {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}
        response["headers"] = {"Retry-After": header}
    return response


_PARAMETERS = [
    {
        "name": "Content-Encoding",
        "in": "header",
        "description": "How the body is compressed.",
        "schema": {"type": "string", "enum": ["gzip", "zstd", "br", "identity"]},
    },
    {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "A request that is repeated with its key within ten minutes is not written twice, as far as the "
        "same process gets it.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    },
    {
        "name": "Prefer",
        "in": "header",
        "description": "`return=representation`: the answer names each event's origin.",
        "schema": {"type": "string"},
    },
]
_BAD_EVENT = {
    "type": "object",
    "required": ["index", "field", "reason"],
    "properties": {
        "index": {"type": "integer", "description": "Its number in the request, from 0."},
        "field": {"type": ["string", "null"]},
        "reason": {"type": "string"},
    },
}
_ERRORS = {
    "type": "array",
    "items": {"$ref": "#/components/schemas/BadEvent"},
    "description": "The first twenty bad events.",
}
_ACCEPTED = {
    "type": "object",
    "required": ["accepted"],
    "properties": {
        "accepted": {"type": "integer", "description": "Events that are written."},
        "dead": {"type": "integer", "description": "Bad events that became dead letters."},
        "errors": _ERRORS,
        "origins": {
            "type": "array",
            "items": {"type": ["string", "null"]},
            "description": "For each event topic/partition/offset; null for a dead letter.",
        },
    },
}
_PROBLEM_SCHEMA = {
    "type": "object",
    "description": "By RFC 9457.",
    "required": ["title", "status", "detail"],
    "properties": {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": _ERRORS,
        "bad": {"type": "integer", "description": "How many events are bad."},
    },
}
