"""Formats of events: which fields they have, whether an event is usable, and how the enriched event is written.

It may use `task` and the codecs.
"""
