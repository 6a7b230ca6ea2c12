"""The service that moves data between topics and external stores, both ways. No other package imports it.

A **route** (`routes.py`) moves rows one way: a topic into a store (`writeback/`), or an external source into a topic
(`sources/`). `building.py` makes the routes of a pipeline, `service.py` runs them, `page.py` serves their status over
HTTP, `__main__.py` is the program.
"""
