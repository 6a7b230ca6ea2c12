"""The edges of a pipeline: events come in over HTTP, and go out over HTTP.

`ingest` takes events from senders and writes them to a topic.

A program of its own. May import `enrich`; nothing imports it.
"""
