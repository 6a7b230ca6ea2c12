"""What a reader adds to its process: private memory after some look-ups, above that with all libraries imported.

The process is made as Spark makes a worker of a stage: forked from a daemon that has imported everything.
"""

import json
import os
import random
import sys

import pyarrow as pa

from bench.kit.metadata import ROWS, key_of
from enrich.config import Pipeline, from_wire
from enrich.host.memory_use import unshared_bytes
from enrich.host.reader.reading import AgentReader
from enrich.stage.daemon import prepare

LOOKUPS = 20
KEYS = 10_000


def main() -> None:
    pipeline = from_wire(sys.stdin.read())
    prepare(pipeline.state_dir)
    worker = os.fork()
    if worker == 0:
        _read(pipeline)
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(worker, 0)[1]:
        raise SystemExit("the reader failed")


def _read(pipeline: Pipeline) -> None:
    (name,) = pipeline.tables
    choice = random.Random(1)
    batches = [pa.array([key_of(choice.randrange(ROWS)) for _ in range(KEYS)]) for _ in range(LOOKUPS)]
    before = unshared_bytes(os.getpid())
    reader = AgentReader(pipeline, holder=os.getpid)
    snapshot = reader.wait_until_ready(deadline_s=60)
    for batch in batches:
        found = snapshot.table(name).lookup(batch, snapshot.table(name).columns.names)
        if found.values.null_count:
            raise SystemExit("a key was not found")
    sys.stdout.write(json.dumps({"reader_mib": (unshared_bytes(os.getpid()) - before) / 2**20}) + "\n")
    reader.close()


if __name__ == "__main__":
    main()
