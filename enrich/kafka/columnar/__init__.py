"""Records of topics in columns: read by a consumer, written by a producer, without an object for each record.

It may use the clients. What is here knows nothing of what records mean.
"""

from enrich.kafka.columnar.incoming import Incoming, incoming
from enrich.kafka.columnar.outgoing import Outgoing, outgoing
from enrich.kafka.columnar.records import HEADERS, Came, Records

__all__ = ["HEADERS", "Came", "Incoming", "Outgoing", "Records", "incoming", "outgoing"]
