"""The demo's customers: paths of one `enrich dev sink`, which is told how to answer and says what it has taken."""

import http.client
import json
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from enrich.base.errors import Fatal
from enrich.demo.places import Places

ACME, GLOBEX = "acme", "globex"
CUSTOMERS = (ACME, GLOBEX)
_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Customers:
    host: str
    port: int

    @property
    def answer(self) -> bool:
        """Whether they take requests by now."""
        try:
            self._ask("GET", "/-/behaviour")
        except OSError:
            return False
        return True

    def fail(self, customer: str, status: int) -> None:
        """From now on all its requests get this status."""
        self._ask("PUT", "/-/behaviour", json.dumps({f"/{customer}": {"status": status}}))

    def be_well(self, customer: str) -> None:
        self._ask("PUT", "/-/behaviour", json.dumps({f"/{customer}": []}))

    def delivered(self, customer: str) -> Places:
        """The origins of all events that it has taken."""
        return Places.of_ranges(self._ask("GET", "/-/origins").get(f"/{customer}", {}))

    def seen(self, customer: str) -> dict[str, Any]:
        """What it counted."""
        return dict(self._ask("GET", "/-/seen")["paths"].get(f"/{customer}", {}))

    def _ask(self, method: str, path: str, body: str | None = None) -> dict[str, Any]:
        with closing(http.client.HTTPConnection(self.host, self.port, timeout=_TIMEOUT_S)) as connection:
            connection.request(method, path, body)
            answer = connection.getresponse()
            content = answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise Fatal(f"the demo's customers answered {answer.status}: {content!r}")
        return dict(json.loads(content))
