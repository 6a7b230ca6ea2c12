"""Says of the event whose time Spark cannot read what is to be done. Its Kafka source makes microseconds of the
milliseconds of each record, before any step of a stage: one that are too many for it fails each batch with the record.
"""

import re

from enrich.base.errors import BadRecord

_OVERFLOWS = re.compile(r"topic (\S+) partition (\d+) offset (\d+) has timestamp value (-?\d+) that overflows")


def absurd_time(text: str) -> BadRecord | None:
    """What Spark's message means if it is of such an event; None for other messages."""
    found = _OVERFLOWS.search(text)
    if found is None:
        return None
    topic, partition, offset, time_ms = found.groups()
    return BadRecord(
        f"Spark cannot read the time of an event: {time_ms} ms since 1970 are more than its timestamps hold",
        where=f"topic {topic}, partition {partition}, offset {offset}",
        next_step="profile: realtime takes it for the latest time that there is: go on with that, with another "
        "checkpoint and --from group; the topic's message.timestamp.after.max.ms refuses such events",
    )
