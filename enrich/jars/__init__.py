"""The Java archives that the product needs, locked by checksum, fetched once from Maven Central into the user's cache.

`jars.lock` lists them in sets: `kafka` (the broker of the embedded stack), `spark` (the Kafka connector, which PySpark
does not ship), `registry` (the schema registry). Used by `enrich.dev`, by stages and by the set-up
(`python -m enrich.jars` fetches all).
"""

from enrich.jars.cache import JarCache, jars, unpacked
from enrich.jars.fetch import Progress, Report
from enrich.jars.lock import Artifact, read_lock

__all__ = ["Artifact", "JarCache", "Progress", "Report", "jars", "read_lock", "unpacked"]
