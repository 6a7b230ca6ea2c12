"""The names of the columns that pass between the steps of a stage, and between workers and the JVM.

An event's fields, and the objects of its lookups, have their own names, since users' expressions name them. All others
begin with `_`, and those of Kafka with `_kafka_`.
"""

from dataclasses import dataclass

VALUE = "_kafka_value"
TIMESTAMP = "_kafka_timestamp"
USABLE = "_usable"
"""Whether the event could be read. Never null."""
OUTPUT = "_output"
"""The whole event with all that was added, as bytes; null for an event that is not forwarded."""
BESIDE = "_beside"
"""Bytes of the event's record beside its value."""
FATE = "_fate"
RECORDS = "_records"
"""The records that the event makes on all routes."""
ROUTED = "_routed"
"""What the routes make of the event: a number of `Fate`."""
PROBLEM = "_problem"
"""Why a route cannot take an event that it should; the event is a dead letter then."""
PROBLEM_ROUTE = "_problem_route"
ROUTE_REPORT = "_route_report"


@dataclass(frozen=True)
class Named:
    """Columns of which there is one for each lookup or route."""

    prefix: str

    def of(self, name: str) -> str:
        return f"{self.prefix}{name}"


LINEAGES = Named("_lineage_of_")
PARTS = Named("_parts_of_")
"""What Spark has evaluated of a route: null for an event that does not take it."""
