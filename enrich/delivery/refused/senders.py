"""Who a dead letter of a route comes from, as its key says it: also from which topic of that name.

A compacted DLQ keeps the newest letter of a key, and in a topic that was made again other records have the same places.
"""

import re
from collections.abc import Iterable

TOPIC_ID = "enrich.topic_id"
"""Header of a record in a retry topic: the id of the topic that it was first read from. No letter has it."""

_ID = re.compile(rb"[A-Za-z0-9+/=_-]{1,64}")


def sender_of(route: str, topic_id: str) -> str:
    """`topic_id`: empty if it is not known."""
    return "/".join(part for part in (route, topic_id) if part)


def topic_id_in(headers: Iterable[tuple[str, bytes | None]]) -> str:
    """Anybody may write into a topic: what is no id is taken for missing."""
    found = next((content for name, content in headers if name == TOPIC_ID), None)
    return found.decode() if found is not None and _ID.fullmatch(found) else ""
