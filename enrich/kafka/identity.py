"""Who an event is on its whole way: the headers that every node passes on."""

ORIGIN = "enrich.origin"
"""The place of the record by which the event came in: topic/partition/offset. Without it a record is its own origin."""
EVENT_TIME = "enrich.event_time"
"""When it happened, in ms since 1970, as text."""
