"""The page of a program: what orchestrators, Prometheus and people ask for."""

import http.client
import json
import socket
from contextlib import closing

import pytest

from enrich.service.page import Page, PageServer


class Program:
    def __init__(self):
        self.stopped: dict[str, str] = {}
        self.not_ready: dict[str, str] = {}
        self.page = Page(
            lambda: b"up 1\n", lambda: {"routes": 2}, stopped=lambda: self.stopped, not_ready=lambda: self.not_ready
        )


@pytest.fixture
def program():
    return Program()


@pytest.fixture
def server(program):
    server = PageServer("127.0.0.1", 0, program.page)
    yield server
    server.close()


@pytest.fixture
def ask(server):
    def get(path, method="GET"):
        with closing(http.client.HTTPConnection(server.address, timeout=30)) as connection:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read()

    return get


def test_metrics_and_status_are_answered_as_they_are_now(program, ask):
    assert ask("/metrics") == (200, b"up 1\n")
    assert ask("/status?now=1") == (200, b'{"routes": 2}')


def test_a_program_of_which_a_part_stopped_for_good_is_not_healthy_and_says_why(program, ask):
    assert ask("/healthz") == (200, b'{"healthy": true}')
    program.stopped = {"out": "nothing helps"}
    status, body = ask("/healthz")
    assert (status, json.loads(body)) == (503, {"healthy": False, "stopped": {"out": "nothing helps"}})


def test_a_program_that_is_not_ready_says_why_and_stays_healthy(program, ask):
    program.not_ready = {"users": "loading"}
    status, body = ask("/readyz")
    assert (status, json.loads(body)) == (503, {"ready": False, "not_ready": {"users": "loading"}})
    assert ask("/healthz")[0] == 200
    program.not_ready = {}
    assert ask("/readyz")[0] == 200


def test_other_addresses_say_which_there_are_and_nothing_can_be_posted(ask):
    assert ask("/") == (404, b"try /healthz, /readyz, /metrics or /status\n")
    assert ask("/metrics", "POST")[0] == 404


@pytest.mark.parametrize("path", ["/metrics", "/status", "/healthz", "/readyz", "/"])
def test_probes_may_ask_for_the_head_alone(program, server, ask, path):
    program.not_ready = {"users": "loading"}
    status, body = ask(path)
    host, port = server.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(f"HEAD {path} HTTP/1.0\r\n\r\n".encode())
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    head, _, content = answer.partition(b"\r\n\r\n")
    assert f" {status} ".encode() in head.splitlines()[0]
    assert f"Content-Length: {len(body)}".encode() in head.splitlines()
    assert not content
