"""`enrich dev sink` in a process of its own: the customers that events are delivered to."""

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from subprocess import Popen
from typing import Any
from urllib.parse import urlsplit

from tests.support.commands import enrich_process
from tests.support.waiting import GUARD_S


@dataclass(frozen=True)
class RunningSink:
    url: str
    process: "Popen[str]"

    def behave(self, behaviours: Mapping[str, Any]) -> None:
        """Rules by path; `*` stands for the others, and no rules make a path well."""
        self._ask("PUT", "/-/behaviour", json.dumps(behaviours))

    def be_well(self) -> None:
        self._ask("DELETE", "/-/behaviour")

    def forget(self) -> None:
        self._ask("DELETE", "/-/seen")

    def seen(self, path: str | None = None) -> dict[str, Any]:
        """Of one path; nothing if none came. Without a path, of all together."""
        found = self._ask("GET", "/-/seen")
        return found if path is None else dict(found["paths"].get(path, {}))

    def origins(self, path: str) -> set[tuple[str, int, int]]:
        """Topic, partition and offset of each event that was taken there."""
        ranges = self._ask("GET", "/-/origins").get(path, {})
        return {
            (place.rpartition("/")[0], int(place.rpartition("/")[2]), offset)
            for place, some in ranges.items()
            for first, last in some
            for offset in range(first, last + 1)
        }

    def connect(self) -> http.client.HTTPConnection:
        address = urlsplit(self.url)
        return http.client.HTTPConnection(str(address.hostname), address.port, timeout=GUARD_S)

    def _ask(self, method: str, path: str, body: str | None = None) -> dict[str, Any]:
        with closing(self.connect()) as connection:
            connection.request(method, path, body)
            answer = connection.getresponse()
            content = answer.read()
        assert answer.status == 200, content
        return dict(json.loads(content))


@contextmanager
def running_sink(*options: object) -> Iterator[RunningSink]:
    """Killed at the end, if it still runs."""
    with enrich_process("dev", "sink", "--listen", "127.0.0.1:0", "--json", *options) as process:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield RunningSink(json.loads(line)["url"], process)
