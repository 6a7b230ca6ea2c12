"""Workers come from a daemon that has everything imported: no worker pays for it alone."""

import json

import pytest
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined] # missing in its stubs

from stores.segments import are_loops_kept, compile_loops


@pytest.fixture(scope="module")
def kept_loops():
    if not are_loops_kept():
        compile_loops()


@pytest.mark.usefixtures("kept_loops")
def test_a_worker_finds_the_engine_imported_its_loops_loaded_and_its_executor_two_processes_up(spark):
    def look(numbers):
        import os
        import sys
        from pathlib import Path

        import pyarrow as pa

        engine = sys.modules.get("stores.segments.compiled")
        daemon = Path(f"/proc/{os.getppid()}")
        executor = int(daemon.joinpath("stat").read_text().rpartition(")")[2].split()[1])
        seen = {
            "loaded": engine is not None and all(loop.signatures for loop, _ in engine._KEPT),
            "daemon": daemon.joinpath("cmdline").read_text(),
            "executor": Path(f"/proc/{executor}/comm").read_text().strip(),
        }
        return pa.array([json.dumps(seen)] * len(numbers))

    (row,) = spark.range(1, numPartitions=1).select(arrow_udf(look, "string")("id").alias("seen")).collect()
    seen = json.loads(row["seen"])
    assert seen["loaded"]
    assert "enrich.stage.daemon" in seen["daemon"]
    assert seen["executor"] == "java"
