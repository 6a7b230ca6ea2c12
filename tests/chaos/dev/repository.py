"""A Maven repository on the loopback interface that misbehaves as told."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from enrich.jars import Artifact
from enrich.jars.lock import parse_coordinate


class Repository:
    """Serves files by path. `trouble` names what happens to a file instead: cut, flip, stall or gone."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.trouble: dict[str, str] = {}
        self.asked: list[str] = []
        self.stalled = threading.Event()
        self.release = threading.Event()
        self.url = ""

    def add(self, coordinate: str, content: bytes, set_name: str = "test") -> Artifact:
        sha256 = hashlib.sha256(content).hexdigest()
        artifact = parse_coordinate(coordinate, set_name=set_name, sha256=sha256)
        self.files[f"/{artifact.path}"] = content
        return artifact

    def upset(self, artifact: Artifact, trouble: str) -> None:
        self.trouble[f"/{artifact.path}"] = trouble

    def asked_for(self, artifact: Artifact) -> int:
        return self.asked.count(f"/{artifact.path}")


@contextmanager
def serving(repository: Repository) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            repository.asked.append(self.path)
            content, trouble = repository.files.get(self.path), repository.trouble.get(self.path)
            if content is None or trouble == "gone":
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            half = len(content) // 2
            self.wfile.write(content[:half])
            self.wfile.flush()
            if trouble == "stall":
                repository.stalled.set()
                repository.release.wait(timeout=180)
            if trouble == "cut once":
                del repository.trouble[self.path]
            if trouble in ("cut", "cut once", "stall"):
                self.close_connection = True
                return
            rest = content[half:]
            self.wfile.write(bytes([rest[0] ^ 1]) + rest[1:] if trouble == "flip" else rest)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    repository.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        repository.release.set()
        server.shutdown()
        server.server_close()
        thread.join()


def cached(folder: Path, artifact: Artifact) -> bytes:
    return (folder / artifact.path).read_bytes()
