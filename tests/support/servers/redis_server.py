"""A Redis that belongs to one test, to be killed and started again at the same port, empty unless told otherwise."""

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from enrich.dev.servers.redis import Redis
from enrich.dev.servers.server import Home
from tests.support.waiting import wait_until


class RedisServer:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        place = Home(folder, {"redis": self.port}, token="")
        self.program = Redis().equip(None)(place, lambda _: None).argv[0]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, *arguments: str, wait: bool = True) -> redis.Redis:
        """Returns a client, once the server answers."""
        settings = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", *arguments]
        self._process = subprocess.Popen([self.program, *settings], cwd=self._folder, stdout=subprocess.DEVNULL)
        client = redis.Redis(port=self.port)
        if wait:
            wait_until(lambda: _answers(client), what="an answer of Redis")
        return client

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


@contextmanager
def redis_server(folder: Path) -> Iterator[RedisServer]:
    server = RedisServer(folder)
    try:
        yield server
    finally:
        server.kill()


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.AuthenticationError:
        return True
    except redis.RedisError:
        return False
