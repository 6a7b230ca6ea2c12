"""Stages: Spark jobs that join events with the tables of their host.

The driver's side is `run` (a running query) and `plan` (one DataFrame). The workers' side is `worker`, which uses
Arrow but not Spark. `task` is what travels between the two. Users' own Spark jobs take `enrich` and `failure_of` from
`enrich`. Nothing is imported here: the daemon of the workers chooses first which PySpark it imports.
"""
