"""Takes events over HTTP and writes them to a topic. A 2xx: the in-sync replicas have every record of the request.

`serving` listens, `connection` speaks HTTP within bounds, `endpoint` checks and answers requests, `bodies` inflates
them, `events` takes them apart and checks every event before any is produced, `committing` counts what the brokers
acknowledge.
"""
