"""A table on demand: what a hit costs beside a mapped table, how many keys are loaded, how soon a first key is there.

One agent has both tables. The source is a plain HTTP server in a process of its own that answers at once; agent, server
and reader share the machine.
"""

import asyncio
import json
import multiprocessing
import os
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from bench.harness import Figures, interleaved, medians, say
from enrich.config import load_text
from enrich.host.reader.reading import AgentReader

ROUNDS = 7
KEYS = 10_000
BATCH = 10_000
FIRST_KEYS = 200
LOADED = 5_000

PIPELINE = """
name: bench
kafka: {{bootstrap_servers: "127.0.0.1:1"}}
state_dir: {folder}
tables:
  mapped: {{loader: {{file: {folder}/rows.jsonl, key: [key]}}, columns: "n int, name string"}}
  on_demand:
    loader: {{http: "http://127.0.0.1:{port}/{{key}}"}}
    on_demand: true
    refresh: 1h
    columns: "n int, name string"
    demand: {{per_second: 100000, parallel: 16}}
"""


def run() -> Figures:
    with TemporaryDirectory() as folder, _served() as port:
        rows = (json.dumps({"key": f"k{n}", "n": n, "name": f"name of {n}"}) for n in range(KEYS))
        Path(folder, "rows.jsonl").write_text("\n".join(rows))
        reader = AgentReader(load_text(PIPELINE.format(folder=folder, port=port)), holder=os.getpid)
        try:
            reader.wait_until_ready(deadline_s=120)
            return _figures(reader)
        finally:
            pid = reader.header().pid
            reader.close()
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


def _figures(reader: AgentReader) -> Figures:
    keys = [f"k{n}" for n in range(KEYS)]
    first = [_first(reader, f"first{n}") for n in range(FIRST_KEYS)]
    say("loads")
    began = time.perf_counter()
    reader.load("on_demand", [f"load{n}".encode() for n in range(LOADED)], patience_s=300)
    loads_per_s = LOADED / (time.perf_counter() - began)
    reader.load("on_demand", [key.encode() for key in keys], patience_s=300)
    asked = pa.array(keys, pa.string())
    seconds = medians(
        interleaved(ROUNDS, {name: partial(_looked_up, reader, name, asked) for name in ("mapped", "on_demand")})
    )
    return {
        "hit_vs_mapped": seconds["on_demand"] / seconds["mapped"],
        "hits_per_s": BATCH / seconds["on_demand"],
        "loads_per_s": loads_per_s,
        "first_key_p50_ms": statistics.median(first) * 1000,
        "first_key_p95_ms": statistics.quantiles(first, n=20)[-1] * 1000,
    }


def _first(reader: AgentReader, key: str) -> float:
    """From the look-up that misses to the one that hits."""
    began = time.perf_counter()
    asked = pa.array([key], pa.string())
    while reader.snapshot().table("on_demand").lookup(asked, ["n"]).values.null_count:
        time.sleep(0.0005)
    return time.perf_counter() - began


def _looked_up(reader: AgentReader, table: str, keys: pa.Array) -> float:
    view = reader.snapshot().table(table)
    began = time.process_time()
    for _ in range(20):
        found = view.lookup(keys, ["n", "name"])
    if found.values.null_count:
        raise RuntimeError("a row is missing")
    return (time.process_time() - began) / 20


@contextmanager
def _served() -> Iterator[int]:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    server.start()
    try:
        yield ours.recv()
    finally:
        server.terminate()
        server.join()


def _serve(told: Connection) -> None:
    async def serve() -> None:
        server = await asyncio.start_server(_answer, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            key = head.split(b" ", 2)[1][1:].decode()
            body = json.dumps({"n": len(key), "name": f"name of {key}"}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
