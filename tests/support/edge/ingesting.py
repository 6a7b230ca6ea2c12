"""The program of ingest as its users start it, with what it says of itself; and a sender."""

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.paged_program import PagedProgram, program
from tests.support.waiting import GUARD_S, wait_until


@dataclass(frozen=True)
class Answered:
    """What a sender got."""

    status: int
    headers: Mapping[str, str]
    body: Any

    def __eq__(self, other: object) -> bool:
        """With a number: its status."""
        return self.status == other if isinstance(other, int) else NotImplemented

    __hash__ = None  # type: ignore[assignment] # it is compared only


def sent(
    url: str,
    body: str | bytes,
    kind: str | None = "application/json",
    token: str | None = None,
    *,
    method: str = "POST",
    context: ssl.SSLContext | None = None,
    **headers: str,
) -> Answered:
    """One request on a connection of its own."""
    parts = urlsplit(url)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    given |= {} if kind is None else {"content-type": kind}
    given |= {} if token is None else {"authorization": f"Bearer {token}"}
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(parts.netloc, timeout=GUARD_S, context=context)
    else:
        connection = http.client.HTTPConnection(parts.netloc, timeout=GUARD_S)
    with closing(connection):
        connection.request(method, parts.path, body.encode() if isinstance(body, str) else body, given)
        answer = connection.getresponse()
        content = answer.read()
        return Answered(
            answer.status,
            {name.lower(): value for name, value in answer.getheaders()},
            json.loads(content) if content else None,
        )


class Ingest(PagedProgram):
    """A running program."""

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.ask("/status")[1]))

    def entry(self, name: str) -> dict[str, Any]:
        (found,) = [route for route in self.status()["routes"] if route["name"] == name]
        return dict(found)

    def url(self, name: str) -> str:
        return str(self.entry(name)["details"]["address"])

    def not_ready(self) -> dict[str, str]:
        """What /readyz says is not ready; nothing if all is."""
        code, content = self.ask("/readyz")
        reasons = json.loads(content)["not_ready"]
        assert (code == 200) == (not reasons)
        return dict(reasons)

    def until_ready(self) -> None:
        wait_until(lambda: self._runs() and not self.not_ready(), what="readiness")

    def metric(self, name: str, **labels: str) -> float:
        """The value of one line of /metrics, all of which name the pipeline; 0 if there is none."""
        labels["pipeline"] = self.status()["pipeline"]
        wanted = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
        start = f"{name}{{{wanted}}} "
        lines = self.ask("/metrics")[1].decode().splitlines()
        return next((float(line.removeprefix(start)) for line in lines if line.startswith(start)), 0.0)

    def processes(self) -> list[int]:
        """Those that serve."""
        return [each["pid"] for each in self.status()["processes"] if each["state"] == "serving"]

    def _runs(self) -> bool:
        assert self.process.poll() is None, self.said()
        return True


def started(config: Path) -> AbstractContextManager[Ingest]:
    """The program, just started; killed at the end, if it still runs."""
    return program(Ingest, ["edge_service", "ingest"], config)


@contextmanager
def running(config: Path) -> Iterator[Ingest]:
    """The program once it takes events; stopped at the end."""
    with started(config) as ingest:
        ingest.until_ready()
        yield ingest
        if ingest.process.poll() is None:
            assert ingest.stop() == 0, ingest.said()


def write_config(path: Path, servers: str, sections: str) -> Path:
    """A pipeline's file. Ports are any free ones."""
    path.write_text(
        f"name: test\nkafka: {{bootstrap_servers: '{servers}'}}\nstate_dir: {path.parent}/state\n"
        f"pages: {{ingest: '127.0.0.1:0'}}\n{sections}"
    )
    return path
