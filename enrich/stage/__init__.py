"""Stages: Spark jobs that join events with the tables of their host.

The driver's side is `plan` (one DataFrame), `session`, `profiles` and `job` (a running query); the workers' side is
`worker`, `gate`, `answers` and `policies`, which know Arrow and no Spark. `operator` is where the two meet.
"""

from enrich.stage.failures import failure_of
from enrich.stage.library import enrich

__all__ = ["enrich", "failure_of"]
