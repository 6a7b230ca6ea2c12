"""Bad events of requests become dead letters, for entries with `invalid: dlq`."""

import hashlib
import secrets

from edge_service.ingest.reading.events import Events
from enrich.kafka.writing.dead_letters import LARGEST_VALUE, DeadLetter


def letters_of(events: Events, *, pipeline: str, ingest: str, topic: str) -> list[DeadLetter]:
    """One for each bad event, with its bytes as they were sent, at most as many as a DLQ takes."""
    # A request has no place in a topic. By this name its letters are told from those of all others.
    request = secrets.token_hex(12)
    letters = []
    for bad in events.bad:
        value = events.values[bad.index]
        reason = f"{bad.field}: {bad.reason}" if bad.field else bad.reason
        headers = [
            ("enrich.reason", reason.encode()),
            ("enrich.stage", ingest.encode()),
            ("enrich.topic", topic.encode()),
            ("enrich.length", str(len(value)).encode()),
            ("enrich.sha256", hashlib.sha256(value).hexdigest().encode()),
        ]
        key = f"{pipeline}.ingest.{ingest}/{request}/{bad.index}"
        letters.append(DeadLetter(key.encode(), bytes(value[:LARGEST_VALUE]), headers))
    return letters


def without_bad(events: Events) -> Events:
    """The events that can be written."""
    bad = {each.index for each in events.bad}
    good = [index for index in range(len(events.values)) if index not in bad]
    return Events(
        [events.values[index] for index in good],
        [events.keys[index] for index in good],
        [events.times_ms[index] for index in good],
    )
