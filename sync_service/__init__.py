"""The service that moves data between topics and external stores, both ways; nothing else of the product calls these.

A **route** (`routes.py`) moves one thing one way: a topic into a store (`writeback/`), or an external source into a
topic (`sources/`). `building.py` makes the routes of a pipeline, `service.py` runs them, `http.py` tells how they are,
`__main__.py` is the program.
"""
