"""Who an event is on its whole way: the headers that every node passes on."""

import re
from collections.abc import Iterable

ORIGIN = "enrich.origin"
"""The place of the record by which the event came in: topic/partition/offset. Without it a record is its own origin."""
EVENT_TIME = "enrich.event_time"
"""When it happened, in ms since 1970, as text."""
VERSION = "enrich.version"
"""A whole number, as text: write-back keeps the record of a key that has the highest."""
RELEASE = "enrich.release"
"""A whole number, as text. Without it a record is of release 0. Of several the greatest counts: a node adds its own to
what an event brings."""
OPERATION, LSN, XID, COMMIT_TIME = "enrich.op", "enrich.lsn", "enrich.xid", "enrich.commit_time"
"""Of a record that comes from a change log."""
REPLAYS = "enrich.replays"
"""How often it was replayed from a DLQ."""

PASSED_ON = (ORIGIN, EVENT_TIME, VERSION, RELEASE, OPERATION, LSN, XID, COMMIT_TIME, REPLAYS)
"""All headers of ours that an event may keep on its way. They say nothing of its content."""

# A place has one name only: no zeros before its numbers.
_ORIGIN = re.compile(rb"([A-Za-z0-9._-]{1,249}/(?:0|[1-9][0-9]{0,9}))/(0|[1-9][0-9]{0,18})")
_TIME = re.compile(rb"-?[0-9]{1,18}")
_MOST_OFFSET = 2**63 - 1
_MOST_PARTITION = 2**31 - 1

Headers = Iterable[tuple[str, bytes | None]]


def origin_of(content: bytes | None) -> tuple[bytes, int] | None:
    """Topic/partition and offset. None for what is no origin: anybody may write into a topic."""
    found = _ORIGIN.fullmatch(content or b"")
    if found is None or int(found[2]) > _MOST_OFFSET or int(found[1].rpartition(b"/")[2]) > _MOST_PARTITION:
        return None
    return found[1], int(found[2])


def event_time_of(content: bytes | None) -> int | None:
    """In ms since 1970. None for what is no time."""
    return int(content) if content is not None and _TIME.fullmatch(content) is not None else None


def identity_of(headers: Headers) -> tuple[tuple[bytes, int] | None, int | None]:
    """Origin and event time, as far as they are there. Of several origins the first counts: stages put the right one
    before what an event brings. Of several times the last."""
    origin = event_time = None
    for name, content in headers:
        if name == ORIGIN:
            origin = origin or origin_of(content)
        elif name == EVENT_TIME:
            event_time = event_time_of(content) if event_time_of(content) is not None else event_time
    return origin, event_time
