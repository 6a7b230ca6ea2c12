"""The service that moves data between topics and external stores, both ways. No other package imports it.

A **route** (`enrich.service.routes`) moves rows one way: a topic into a store (`writeback`), or an external source into
a topic (`sources`); `reconcile` compares a store with its topic. `building.py` makes the routes of a pipeline,
`__main__.py` is the program, and `enrich.service` runs the routes and serves their status over HTTP.
"""

from enrich.base.interrupts import quiet_ctrl_c

# Before anything else is imported, which takes a second or two.
quiet_ctrl_c()
