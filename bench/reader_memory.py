"""What a reader adds to its process: private memory after some look-ups, above that with all libraries imported."""

import json
import os
import random
import sys

import pyarrow as pa

from bench.agents import private_mib
from bench.metadata import ROWS, key_of
from enrich.agent.reading import AgentReader
from enrich.config import from_wire

LOOKUPS = 20
KEYS = 10_000


def main() -> None:
    pipeline = from_wire(sys.stdin.read())
    (name,) = pipeline.tables
    choice = random.Random(1)
    batches = [pa.array([key_of(choice.randrange(ROWS)) for _ in range(KEYS)]) for _ in range(LOOKUPS)]
    before = private_mib(os.getpid())
    reader = AgentReader(pipeline, holder=os.getpid)
    snapshot = reader.wait_until_ready(deadline_s=60)
    for batch in batches:
        found = snapshot.table(name).lookup(batch, snapshot.table(name).columns.names)
        if found.values.null_count:
            raise SystemExit("a key was not found")
    sys.stdout.write(json.dumps({"reader_mib": private_mib(os.getpid()) - before}) + "\n")
    reader.close()


if __name__ == "__main__":
    main()
