"""Services of the compose file, started on this machine as the file says, at free ports of the loopback interface."""

import os
import re
import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from enrich.dev.servers.ports import choose
from tests.unit.deploy.compose import Compose, Service
from tests.unit.deploy.installed import BIN
from tests.unit.deploy.ports import listening

HOST = "127.0.0.1"


class Moved:
    """Where things stand on this machine that have a place of their own in the containers."""

    def __init__(self, compose: Compose, *names: str) -> None:
        self._ports: dict[tuple[str, int], int] = {}
        self._services = [compose.services[name] for name in names]
        for service in self._services:
            for port in sorted(listening(service)):
                (self._ports[service.name, port],) = choose(1, set(self._ports.values()))

    @property
    def ports(self) -> Collection[tuple[str, int]]:
        """What the services listen on, by their names."""
        return self._ports.keys()

    def port(self, service: str, port: int) -> int:
        return self._ports[service, port]

    def text(self, text: str, own: Service) -> str:
        """The text of a service, its addresses and ports replaced by those on this machine."""
        for (service, port), here in self._ports.items():
            text = text.replace(f"{service}:{port}", f"{HOST}:{here}")
            if service == own.name:
                text = re.sub(rf"(localhost|127\.0\.0\.1|(?<=//)):{port}\b", f"{HOST}:{here}", text)
                text = str(here) if text == str(port) else text
        return HOST if text in {service.name for service in self._services} else text

    def words(self, words: tuple[str, ...], own: Service) -> list[str]:
        return [self.text(word, own) for word in words]


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """That of the container: what the file says, and the programs of the image first."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return {**inherited, "PATH": f"{BIN}:{os.environ['PATH']}", **variables}


@contextmanager
def process(command: list[str], variables: Mapping[str, str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs inside the block, its output in `output.log`; ended by SIGTERM, and killed if that does not help."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "output.log").open("wb") as log:
        started = subprocess.Popen(command, env=environment(variables), cwd=folder, stdout=log, stderr=log)
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(timeout=60)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def is_healthy(words: list[str], variables: Mapping[str, str]) -> bool:
    """Whether a health check, which says first how it is run, succeeds."""
    kind, *rest = words
    command = ["sh", "-c", *rest] if kind == "CMD-SHELL" else rest
    done = subprocess.run(command, env=environment(variables), capture_output=True, timeout=120, check=False)
    return done.returncode == 0
