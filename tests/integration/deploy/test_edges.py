"""The edges, started as the compose file says: healthy, ready, an event goes through, and they end well."""

import http.client
import json
import signal
import subprocess
from contextlib import ExitStack, closing

import pytest

from tests.integration.deploy.started import HOST, Moved, environment, is_healthy, process
from tests.support.waiting import GUARD_S, wait_until
from tests.unit.deploy.compose import parse_compose
from tests.unit.deploy.installed import read

COMPOSE = parse_compose(read("docker-compose.yml"))
ROLES = ("ingest", "expel", "retrier", "observer")
EVENTS, RECEIVER = ("ingest", 8088), ("receiver", 8900)
PAGES = {"ingest": 9401, "expel": 9402, "retrier": 9403, "observer": 9500}


class Edges:
    """The four services on ports of this machine."""

    def __init__(self, folder, bootstrap_servers):
        self._moved = Moved(COMPOSE, *ROLES, "receiver")
        self._folder = folder
        self._running = {}
        self._file = folder / "edge.yaml"
        text = self._here(read("deploy/edge/edge.yaml"), *ROLES, "receiver")
        self._file.write_text(f"state_dir: {folder}\n{text.replace('kafka:19092', bootstrap_servers)}")

    def port(self, name, port):
        return self._moved.port(name, port)

    def _here(self, text, *names):
        for name, port in self._moved.ports:
            address = f"{HOST}:{self.port(name, port)}"
            text = text.replace(f"{name}:{port}", address)
            if name in names:
                text = text.replace(f"0.0.0.0:{port}", address).replace(f"{HOST}:{port}", address)
        return text.replace("/etc/enrich/edge.yaml", str(self._file))

    def _words(self, name, words):
        return [self._here(word, name) for word in words]

    def make_topics(self):
        service = COMPOSE.services["topics"]
        command = self._words("topics", service.command)
        subprocess.run(
            command, env=environment(service.environment), check=True, timeout=GUARD_S, stdout=subprocess.DEVNULL
        )

    def start(self, name):
        service = COMPOSE.services[name]
        return process(self._words(name, service.command), service.environment, self._folder / name)

    def log(self, name):
        return (self._folder / name / "output.log").read_text()

    def is_healthy(self, name):
        return is_healthy(self._words(name, COMPOSE.services[name].health_check), {})

    def ask(self, name, port, path, body=None, token=""):
        """Status and body of the answer. None if nobody answers."""
        headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
        with closing(http.client.HTTPConnection(HOST, self.port(name, port), timeout=GUARD_S)) as connection:
            try:
                connection.request("GET" if body is None else "POST", path, body, headers)
                answer = connection.getresponse()
                return answer.status, answer.read()
            except OSError:
                return None


@pytest.fixture
def edges(stack, tmp_path):
    return Edges(tmp_path, str(stack.bootstrap_servers))


def test_an_event_goes_through_the_services_as_the_file_starts_them(edges):
    edges.make_topics()
    with ExitStack() as held:
        running = {name: held.enter_context(edges.start(name)) for name in ("receiver", *ROLES)}

        def are_ready():
            ended = [edges.log(name) for name, started in running.items() if started.poll() is not None]
            assert ended == []
            asked = [edges.ask(name, port, "/readyz") for name, port in PAGES.items()]
            return all(answer is not None and answer[0] == 200 for answer in asked)

        wait_until(are_ready, what="all of them to be ready")
        assert [name for name in running if not edges.is_healthy(name)] == []
        for name, port in PAGES.items():
            assert (
                f"enrich_{name.removesuffix('r') if name == 'observer' else name}_"
                in edges.ask(name, port, "/metrics")[1].decode()
            )
        token = COMPOSE.services["ingest"].environment["INGEST_TOKEN"]
        assert edges.ask(*EVENTS, "/v1/events", b'{"id": 1}', "another")[0] == 401
        assert edges.ask(*EVENTS, "/v1/events", b'{"id": 1}', token)[0] == 200
        wait_until(lambda: json.loads(edges.ask(*RECEIVER, "/-/seen")[1])["taken"] == 1, what="the event")
        for name in ROLES:
            running[name].send_signal(signal.SIGTERM)
        assert {name: running[name].wait(timeout=GUARD_S) for name in ROLES} == dict.fromkeys(ROLES, 0)
