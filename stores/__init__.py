"""Engines that answer look-ups from local state, and the interfaces in front of them.

Everything above (`enrich`, jobs, the sync service) may use this room; it knows nothing of Kafka, Spark or the
configuration file. What an engine needs from outside (records, a decoder, a clock) comes in as a small protocol.
"""
