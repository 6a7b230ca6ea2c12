"""Reads a topic and hands it to a sink in batches, commits what is settled, and goes on from there.

It may use `kafka` and `base`; what the sink is, its callers know. Today write-back uses it, in the sync service.
"""
