"""A worker's reader beside `bench.sync.cdc`: when it saw what was committed in PostgreSQL.

python -m bench.sync.cdc_reader     the pipeline on standard input, then one line when it is ready, then, once standard
                                    input ends, the delays in milliseconds as one JSON list
"""

import json
import select
import sys
import time
from datetime import datetime

import pyarrow as pa

from bench.kit.processes import started, tell
from enrich.config import Pipeline, from_wire, to_wire
from enrich.host.reader.reading import AgentReader

ROWS_EACH = 100
"""Of a transaction; the next one changes those behind it."""
_LOOK_EVERY_S, _DEADLINE_S = 0.001, 120
_AHEAD = 50
"""So many transactions may become visible at once."""


class WorkersReader:
    """The other process. Ready when the constructor returns."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._process = started("bench.sync.cdc_reader")
        tell(self._process, to_wire(pipeline))
        if self._process.stdout is None or self._process.stdout.readline().strip() != "ready":
            raise RuntimeError("the reader ended before it was ready")

    def delays(self) -> list[float]:
        """Ends the process."""
        answer, _ = self._process.communicate("\n", timeout=_DEADLINE_S)
        return list(map(float, json.loads(answer)))


def ms(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() * 1000


def main() -> None:
    reader = AgentReader(from_wire(json.loads(sys.stdin.readline())))
    reader.wait_until_ready(["users"], deadline_s=_DEADLINE_S)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    delays: list[float] = []
    seq = reader.snapshot().seq
    while not select.select([sys.stdin], [], [], _LOOK_EVERY_S)[0]:
        snapshot = reader.snapshot()
        if snapshot.seq == seq:
            continue
        seq, first = snapshot.seq, len(delays)
        keys = pa.array([str(number * ROWS_EACH + 1) for number in range(first, first + _AHEAD)])
        rows = snapshot.table("users").lookup(keys, ["plan", "at"]).values.to_pylist()
        now = time.time() * 1000
        for row in rows:
            if not str(row["plan"]).startswith("reader"):
                break
            delays.append(now - ms(row["at"]))
    sys.stdout.write(json.dumps(delays))
    reader.close()


if __name__ == "__main__":
    main()
