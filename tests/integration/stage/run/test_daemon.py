"""Workers come from a daemon that has everything imported: no worker pays for it alone."""

import json
import os
import socket
import struct
import subprocess
import sys

import psutil
import pytest
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined] # missing in its stubs

from stores.segments import are_loops_kept, compile_loops
from tests.support.waiting import wait_until

NUMBER = struct.Struct("!i")


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
        import pyspark

        engine = sys.modules.get("stores.segments.loops.compiled")
        daemon = Path(f"/proc/{os.getppid()}")
        executor = int(daemon.joinpath("stat").read_text().rpartition(")")[2].split()[1])
        seen = {
            "loaded": engine is not None and all(loop.signatures for loop, _ in engine._KEPT),
            "pyspark": pyspark.__file__,
            "daemon": daemon.joinpath("cmdline").read_text(),
            "executor": Path(f"/proc/{executor}/comm").read_text().strip(),
        }
        return pa.array([json.dumps(seen)] * len(numbers))

    (row,) = spark.range(1, numPartitions=1).select(arrow_udf(look, "string")("id").alias("seen")).collect()
    seen = json.loads(row["seen"])
    assert seen["loaded"]
    assert "enrich.stage.daemon" in seen["daemon"]
    assert seen["executor"] == "java"
    assert ".zip" not in seen["pyspark"]


def test_a_worker_whose_executor_is_gone_ends_without_a_word(tmp_path):
    secret, errors = "of this test", tmp_path / "errors"
    told = {"PYTHON_WORKER_FACTORY_SECRET": secret, "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1"}
    command = [sys.executable, "-m", "enrich.stage.daemon", "pyspark.worker"]
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env={**os.environ, **told}
        ) as daemon,
    ):
        assert daemon.stdin and daemon.stdout
        (port,) = NUMBER.unpack(daemon.stdout.read(NUMBER.size))
        with socket.create_connection(("127.0.0.1", port)) as executor:
            (worker,) = NUMBER.unpack(executor.recv(NUMBER.size, socket.MSG_WAITALL))
            executor.sendall(NUMBER.pack(len(secret)) + secret.encode())
            assert executor.recv(NUMBER.size + 2, socket.MSG_WAITALL).endswith(b"ok")
            # As the system closes what a killed process had open: whatever is still sent is refused.
            executor.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wait_until(lambda: not psutil.pid_exists(worker), what="the worker's end")
        assert daemon.poll() is None
        daemon.stdin.close()  # as an executor tells it to end
    assert errors.read_text() == ""
