"""A pipeline with a route of each program that delivers. Nobody is at its addresses."""

from collections.abc import Mapping
from typing import Any

DELIVERING: Mapping[str, Any] = {
    "name": "p",
    "kafka": {"bootstrap_servers": "127.0.0.1:1"},
    "expel": {"acme": {"topic": "plays", "to": {"http": {"url": "https://example.org"}}, "retries": ["1m"]}},
    "sync": {
        "writeback": {
            "acme": {
                "topic": "users",
                "format": "json",
                "columns": "plan string",
                "to": {"redis": {"url": "redis://127.0.0.1:1", "key": "{key}", "as": "hash"}},
            }
        }
    },
}
