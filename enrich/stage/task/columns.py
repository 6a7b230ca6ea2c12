"""The names of the columns that pass between the steps of a stage, and between workers and the JVM.

An event's fields, and the objects of its lookups, have their own names, since users' expressions name them. All others
begin with `_`, and those of Kafka with `_kafka_`.
"""

from dataclasses import dataclass

KEY = "_kafka_key"
VALUE = "_kafka_value"
TIMESTAMP = "_kafka_timestamp"
TOPIC = "_kafka_topic"
PARTITION = "_kafka_partition"
OFFSET = "_kafka_offset"
HEADERS = "_kafka_headers"
"""Without nulls; only where workers read records themselves."""
ORIGIN_HEADER = "_origin"
"""What the event's header says of where it came in."""
TIME_HEADER = "_event_time"
TIME = "_time"
"""What the stage's `event_time` says."""
EVENT_TIME = "_event_time_ms"
"""Never null."""
CAME = "_came_ms"
"""When the event came to its worker."""
USABLE = "_usable"
"""Whether the event could be read. Never null."""
OUTPUT = "_output"
"""The whole event with all that was added, as bytes; null for an event that is not forwarded, or that the sink does
not take."""
BESIDE = "_beside"
"""Bytes of the event's record beside its value."""
FATE = "_fate"
RECORDS = "_records"
"""The records that the event makes on all routes."""
ROUTED = "_routed"
"""What the routes make of the event: a number of `Fate`."""
PROBLEM = "_problem"
"""Why a route, or the sink, cannot take an event that it should; the event is a dead letter then."""
PROBLEM_ROUTE = "_problem_route"
FAILED = "_failed"
"""Whether something else than its output keeps an event from being written."""
TALLIES = "_tallies"
"""Reports for the topic of tallies, on one event of each batch."""
ROUTE_REPORT = "_route_report"
LAG_REPORT = "_lag_report"
"""How late events were, on one event of each batch: base64 of `encoded_lag`."""


@dataclass(frozen=True)
class Named:
    """Columns of which there is one for each lookup or route."""

    prefix: str

    def of(self, name: str) -> str:
        return f"{self.prefix}{name}"


LINEAGES = Named("_lineage_of_")
PARTS = Named("_parts_of_")
"""What Spark has evaluated of a route: null for an event that does not take it."""
