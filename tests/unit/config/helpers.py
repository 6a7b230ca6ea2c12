"""A small good pipeline that tests change in one place, and what the loader says of it."""

import copy
import json
from typing import Any

import pytest

from enrich.config import ConfigProblems, Pipeline, load_text

GOOD: dict[str, Any] = {
    "name": "plays",
    "kafka": {"bootstrap_servers": "localhost:9092"},
    "tables": {
        "users": {
            "topic": "users.v1",
            "format": "json",
            "columns": "plan string, region string, limits struct<rps:int,burst:int>",
            "history": "1h",
            "freshness": {"on_stale": "fail"},
        },
        "limits": {"loader": {"redis": "redis://localhost"}, "format": "json", "columns": "rps int"},
        "networks": {"topic": "networks.v1", "format": "json", "key": "cidr", "columns": "country string"},
    },
    "stages": {
        "enrich": {
            "source": {"topic": "plays.raw", "format": "json", "schema": "user_id string, ip string, ts timestamp"},
            "lookups": [{"table": "users", "key": "user_id", "as": "user", "select": ["plan", "region"]}],
            "event_time": "ts",
            "sink": {"topic": "plays.enriched"},
            "dlq": "plays.dlq",
        }
    },
}

HEAD = "name: plays\nkafka: {bootstrap_servers: 'localhost:9092'}\n"
"""The least that a pipeline needs, for tests that write YAML."""

ABSENT = object()
LOOKUP = "stages.enrich.lookups.0"
RECORD = 'expected the schema of a record: {"type": "record", "name": ..., "fields": [...]}'
AVRO = '{"type": "record", "name": "r", "fields": [{"name": "user_id", "type": "string"}]}'

Changes = list[tuple[str, Any]]
Refused = tuple[str, Changes, str, str]
"""Name of the rule, what is changed in the good pipeline, the key and the message of the only problem."""


def changed(*changes: tuple[str, Any]) -> dict[str, Any]:
    """The good pipeline with values put at paths such as `stages.enrich.lookups.0.key`, or taken out."""
    data = copy.deepcopy(GOOD)
    for path, value in changes:
        steps = path.split("/") if "/" in path else path.split(".")
        holder: Any = data
        for step in steps[:-1]:
            holder = holder[int(step)] if isinstance(holder, list) else holder.setdefault(step, {})
        if value is ABSENT:
            del holder[steps[-1]]
        elif isinstance(holder, list):
            holder[int(steps[-1]) :] = [value]
        else:
            holder[steps[-1]] = value
    return data


def refused(cases: list[Refused]) -> list[Any]:
    return [pytest.param(*rest, id=name) for name, *rest in cases]


def load_data(data: Any, environ: dict[str, str] | None = None) -> Pipeline:
    """JSON is YAML, so this goes the whole way of a file."""
    return load_text(json.dumps(data), environ or {})


def told(data: Any, environ: dict[str, str] | None = None) -> list[str]:
    """`key: message` of every problem, in order; empty for a good pipeline."""
    try:
        load_data(data, environ)
    except ConfigProblems as found:
        return [f"{problem.key}: {problem.message}" for problem in found.problems]
    return []


def lines_of(text: str, environ: dict[str, str] | None = None) -> list[str]:
    """`line:column: key: message` of every problem of a YAML text."""
    try:
        load_text(text, environ or {}, "f")
    except ConfigProblems as found:
        return [str(problem).removeprefix("f:") for problem in found.problems]
    return []
