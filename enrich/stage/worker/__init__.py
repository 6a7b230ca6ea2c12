"""The workers' side: tables opened once a process, events answered a batch at a time. Arrow in, Arrow out, no Spark.

It may use `task`, `events` and the host's readers.
"""
