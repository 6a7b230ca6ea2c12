"""The workers' side: tables opened once per process, events answered batch by batch. Arrow in, Arrow out, no Spark.

It may use `task`, `events` and the host's readers.
"""
