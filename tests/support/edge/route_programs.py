"""Programs that run routes, under test: in threads of this process, or as containers run them."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from enrich.base.errors import EnrichError
from enrich.service.routes import Route, RouteStatus
from enrich.service.service import Service
from tests.support.ports import free_port
from tests.support.waiting import wait_until


class RunningRoutes:
    """In threads of this process."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.service = Service(routes, held_s=0.2, most_pause_s=0.5)
        self.error: EnrichError | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.service.run()
        except EnrichError as error:
            self.error = error

    def status(self, route: str = "acme") -> RouteStatus:
        return next(status for status in self.service.statuses() if status.name == route)

    def wait_for_state(self, state: str, route: str = "acme") -> RouteStatus:
        wait_until(lambda: self.status(route).state == state, deadline_s=60, what=f"the state {state}")
        return self.status(route)

    def stop(self) -> None:
        self.service.stop()
        self._thread.join(40)
        assert not self._thread.is_alive()

    def wait_ended(self) -> EnrichError | None:
        wait_until(lambda: not self._thread.is_alive(), what="the end of the service")
        return self.error


class RoutesProcess:
    """An instance of the program that `python -m` has by these words."""

    def __init__(self, words: Sequence[str], folder: Path, document: Callable[[str], Mapping[str, Any]]) -> None:
        """`document`: the pipeline file, for the address of its page."""
        folder.mkdir(exist_ok=True)
        self.port = free_port()
        self.config = config = folder / "pipeline.yaml"
        config.write_text(json.dumps(document(f"127.0.0.1:{self.port}")))
        self._errors = (folder / "stderr").open("wb")
        command = [sys.executable, "-m", *words, "-c", str(config)]
        self.process = subprocess.Popen(command, stderr=self._errors, stdout=self._errors)

    @property
    def log(self) -> str:
        return Path(self._errors.name).read_text()

    def get(self, path: str) -> tuple[int, str]:
        """Code and body; (0, "") while nothing answers."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def route(self, name: str = "acme") -> dict[str, Any]:
        """Its status; empty while nothing answers."""
        code, body = self.get("/status")
        routes = json.loads(body)["routes"] if code == 200 else []
        return next((route for route in routes if route["name"] == name), {})

    def count(self, name: str) -> int:
        return int(self.route().get("counters", {}).get(name, 0))

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(60)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)
        self._errors.close()
