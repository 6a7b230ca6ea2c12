"""The edges of a pipeline: events come in over HTTP, and go out over HTTP.

`ingest` takes events from senders and writes them to a topic. `expel` delivers the events of a topic to an endpoint,
and `retrier` brings back those that wait for another try; beside them is what these two share.

A program of its own, with three roles. May import `enrich` and `stores`; nothing imports it.
"""

from enrich.base.interrupts import quiet_ctrl_c

# Before anything else is imported, which takes a second or two.
quiet_ctrl_c()
