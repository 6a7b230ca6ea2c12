"""Ratings of a chain whose capacity is known: ingest takes events, and expel may send so many requests a second, each
with one event. How far is what `enrich rate run` says from that?"""

import http.server
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.harness import Figures, say
from enrich.dev.servers.ports import choose
from enrich.dev.temporary import temporary_stack

CAPACITY, ROUNDS, STEP = 1_000, 3, "15s"
_READY_S = 60


def run() -> Figures:
    with ExitStack() as held:
        stack = held.enter_context(temporary_stack())
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        file, pages = _config(folder, str(stack.bootstrap_servers), held.enter_context(_endpoint()))
        _enrich("topics", "apply", "-c", file, "--yes")
        for role, page in pages.items():
            held.enter_context(_program(file, role, page))
        events = folder / "events.jsonl"
        events.write_text('{"id": 1, "ts": 0}\n{"id": 2, "ts": 0}\n')
        found: list[float] = []
        for number in range(1, ROUNDS + 1):
            command = ("rate", "run", "-c", file, "--events", events, "--first", 250, "--step", STEP, "--json")
            rating = json.loads(_enrich(*command).splitlines()[-1])
            found.append(rating["rating_per_s"])
            tried = "; ".join(f"{step['rate']:,.0f} {step['breaks'] or 'holds'}" for step in rating["steps"])
            say(f"round {number}/{ROUNDS}: {found[-1]:,.0f} of {CAPACITY:,} events/s: {tried}")
    return {
        "capacity_per_s": CAPACITY,
        "rating_per_s": statistics.median(found),
        "worst_error": max(abs(one / CAPACITY - 1) for one in found),
    }


def _config(folder: Path, servers: str, endpoint: int) -> tuple[Path, dict[str, str]]:
    listen, ingest, expel = (f"127.0.0.1:{port}" for port in choose(3, []))
    http = {"url": f"http://127.0.0.1:{endpoint}/", "format": "single", "allow_private": True}
    entry = {"listen": listen, "path": "/v1/plays", "topic": "plays", "format": "json", "event_time": "ts"}
    document = {
        "name": "rated",
        "kafka": {"bootstrap_servers": servers},
        "state_dir": str(folder / "state"),
        "pages": {"ingest": ingest, "expel": expel},
        "ingest": {"plays": entry},
        "expel": {"acme": {"topic": "plays", "to": {"http": http}, "batch": {"events": 1}, "rate": f"{CAPACITY}/s"}},
    }
    file = folder / "rated.yaml"
    file.write_text(json.dumps(document))
    return file, {"ingest": ingest, "expel": expel}


@contextmanager
def _program(file: Path, role: str, page: str) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-m", "edge_service", role, "-c", str(file)]) as process:
        try:
            _wait_for(page)
            yield
        finally:
            process.terminate()


def _wait_for(page: str) -> None:
    deadline_s = time.monotonic() + _READY_S
    while time.monotonic() < deadline_s:
        try:
            with urllib.request.urlopen(f"http://{page}/readyz", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"{page} was not ready within {_READY_S} s")


def _enrich(*words: object) -> str:
    command = [sys.executable, "-m", "enrich", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


@contextmanager
def _endpoint() -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
