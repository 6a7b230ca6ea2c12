"""Reads a topic in batches, hands them to a sink, and commits the offsets of what the sink has taken.

May import `kafka` and `base`. Callers supply the sink. Used by write-back in the sync service.
"""
