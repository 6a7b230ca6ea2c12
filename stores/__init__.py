"""Engines that answer look-ups from local state, and the interfaces in front of them.

`enrich`, the jobs and the sync service may import this package; it knows nothing of Kafka, Spark or the configuration
file. What an engine needs from outside (records, a decoder, a clock) is defined as a small protocol.
"""
