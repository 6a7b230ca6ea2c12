"""Stages: Spark jobs that join events with the tables of their host.

The driver's side is `run` (a running query) and `plan` (one DataFrame). The workers' side is `worker`, which uses
Arrow but not Spark. `task` is what travels between the two. `enrich` and `failure_of` are for users' own Spark jobs.
"""

from enrich.stage.library import enrich
from enrich.stage.task.failures import failure_of

__all__ = ["enrich", "failure_of"]
