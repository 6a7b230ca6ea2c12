"""Ingest in one process on one core, beside a service as one writes it without us. Senders and broker have the other.

Requests of one event, and of a hundred, of 200 bytes each with a key and an event time: as many as are answered, then
half as many a second.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import uvloop

from bench.edge.load import Heard, closed_loop, open_loop
from bench.harness import Figures, cpu_seconds, interleaved, medians, peak_mib, say
from enrich.dev import temporary_stack
from enrich.dev.servers.ports import choose, is_listening
from enrich.kafka import Topics, new_admin_client

ROUNDS = 3
SECONDS = 4.0
BATCH = 100
EVENT_BYTES = 200
PARTITIONS = 4
SINGLE_SENDERS = 64
BATCH_SENDERS = 16
_WARM_S = 1.0
_START_S = 60.0
_TOKEN = "bench"  # noqa: S105 - of a server that lives for a minute


@dataclass(frozen=True)
class _Server:
    pid: int
    port: int


def run() -> Figures:
    cores = sorted(os.sched_getaffinity(0))
    with temporary_stack() as addresses:
        _pin(os.getpid(), cores[-1])
        _pin(_listening(int(addresses.bootstrap_servers.rpartition(":")[2])), cores[-1])
        topics = Topics(new_admin_client({"bootstrap.servers": addresses.bootstrap_servers}))
        with ExitStack() as running:
            folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
            servers: dict[str, _Server] = {}
            for name, command in (("ours", _ours), ("plain", _plain)):
                topics.create(name, partitions=PARTITIONS, config={"retention.bytes": str(256 << 20)})
                (port,) = choose(1, [server.port for server in servers.values()])
                arguments = command(addresses.bootstrap_servers, name, port, folder)
                servers[name] = running.enter_context(_running(cores[0], arguments, port))
            return _measured(servers)


def _ours(bootstrap: str, topic: str, port: int, folder: Path) -> list[str]:
    entry = {
        "listen": f"127.0.0.1:{port}",
        "path": "/v1/plays",
        "topic": topic,
        "format": "json",
        "key": "user",
        "event_time": "ts",
        "tokens": [_TOKEN],
    }
    pipeline = {
        "name": "bench",
        "kafka": {"bootstrap_servers": bootstrap},
        "ingest": {"plays": entry},
        "pages": {"ingest": "127.0.0.1:0"},
    }
    file = folder / "pipeline.yaml"
    file.write_text(json.dumps(pipeline), encoding="utf-8")
    return ["edge_service", "ingest", "-c", str(file), "--log-level", "warning"]


def _plain(bootstrap: str, topic: str, port: int, folder: Path) -> list[str]:  # noqa: ARG001 - as the other
    return ["bench.edge.plain_service", bootstrap, topic, _TOKEN, str(port)]


@dataclass(frozen=True)
class _Kind:
    """What is sent, and how many connections send it."""

    requests: Sequence[bytes]
    events: int
    senders: int


def _measured(servers: Mapping[str, _Server]) -> Figures:
    kinds = {
        "single": _Kind(_requests(1), 1, SINGLE_SENDERS),
        "batched": _Kind(_requests(BATCH), BATCH, BATCH_SENDERS),
    }
    cpu: dict[str, list[float]] = defaultdict(list)

    def closed(name: str, server: _Server, kind: _Kind) -> float:
        before = cpu_seconds([server.pid])
        heard = uvloop.run(closed_loop(server.port, kind.requests, kind.senders, SECONDS, _WARM_S))
        if heard.refused:
            raise RuntimeError(f"{name}: {heard.refused} requests were refused")
        seconds = (cpu_seconds([server.pid]) - before) * SECONDS / (SECONDS + _WARM_S)
        cpu[name].append(seconds / (heard.taken * kind.events) * 1e6)
        return heard.taken * kind.events / SECONDS

    contenders = {
        f"{name}_{what}": partial(closed, f"{name}_{what}", server, kind)
        for what, kind in kinds.items()
        for name, server in servers.items()
    }
    per_s = medians(interleaved(ROUNDS, contenders))
    cpu_us = medians({name: values[1:] for name, values in cpu.items()})
    figures = {
        "single_requests_per_s": per_s["ours_single"],
        "batched_events_per_s": per_s["ours_batched"],
        "vs_plain": per_s["ours_batched"] / per_s["plain_batched"],
        "vs_plain_single": per_s["ours_single"] / per_s["plain_single"],
        "cpu_us_per_event": cpu_us["ours_batched"],
        "plain_cpu_us_per_event": cpu_us["plain_batched"],
        "cpu_vs_plain": cpu_us["plain_batched"] / cpu_us["ours_batched"],
        "cpu_us_per_single": cpu_us["ours_single"],
        "plain_cpu_us_per_single": cpu_us["plain_single"],
    }
    for prefix, what in (("", "single"), ("batched_", "batched")):
        kind, server = kinds[what], servers["ours"]
        rate = per_s[f"ours_{what}"] / kind.events / 2
        say(f"half load: {rate:.0f} requests/s, {what}")
        heard = uvloop.run(open_loop(server.port, kind.requests, kind.senders, rate, SECONDS, _WARM_S))
        figures |= {f"{prefix}{name}": value for name, value in _latencies(heard).items()}
    return figures | {"peak_mib": peak_mib(servers["ours"].pid)}


def _latencies(heard: Heard) -> Figures:
    if heard.refused:
        raise RuntimeError(f"{heard.refused} requests were refused at half load")
    times = sorted(heard.seconds)
    return {"p50_ms": statistics.median(times) * 1000, "p99_ms": times[int(len(times) * 0.99)] * 1000}


def _requests(events: int) -> list[bytes]:
    """Fifty, each with events of its own."""
    made = []
    for request in range(50):
        bodies = [_event(request * events + number) for number in range(events)]
        body = b"[" + b",".join(bodies) + b"]" if events > 1 else bodies[0]
        made.append(
            b"POST /v1/plays HTTP/1.1\r\nhost: here\r\nauthorization: Bearer %b\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % (_TOKEN.encode(), len(body), body)
        )
    return made


def _event(number: int) -> bytes:
    event = {
        "user": f"user-{number:08d}",
        "ts": 1_795_485_600_000 + number,
        "track": {"id": number * 7, "title": "Überfahrt", "seconds": 211.5},
        "device": "phone",
        "offline": False,
        "note": "",
    }
    event["note"] = "n" * (EVENT_BYTES - len(json.dumps(event, ensure_ascii=False).encode()))
    return json.dumps(event, ensure_ascii=False).encode()


@contextmanager
def _running(core: int, arguments: list[str], port: int) -> Iterator[_Server]:
    command = ["taskset", "--cpu-list", str(core), sys.executable, "-m", *arguments]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
    try:
        end = time.monotonic() + _START_S
        while not is_listening(port):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{arguments[0]} does not listen")
            time.sleep(0.05)
        yield _Server(process.pid, port)
    finally:
        process.terminate()
        process.wait(30)


def _pin(pid: int, core: int) -> None:
    for thread in psutil.Process(pid).threads():
        os.sched_setaffinity(thread.id, {core})


def _listening(port: int) -> int:
    listening = psutil.net_connections("tcp")
    (pid,) = {each.pid for each in listening if each.status == psutil.CONN_LISTEN and each.laddr[1:] == (port,)}
    if pid is None:
        raise RuntimeError("the broker's process cannot be seen")
    return pid
