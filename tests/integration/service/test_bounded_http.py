"""Pages of programs answer whoever asks, however many clients hold connections and say little."""

import contextlib
import socket
import urllib.request

import pytest

from enrich.service import bounded_http
from enrich.service.page import METRICS, Page, PageServer, QuietHandler
from tests.support.waiting import wait_until

SLOW = 200


@pytest.fixture
def server():
    server = PageServer("127.0.0.1", 0, Page(lambda: b"up 1\n", dict))
    yield server
    server.close()


@pytest.fixture
def nothing_ends_by_time(monkeypatch):
    monkeypatch.setattr(bounded_http, "_PATIENCE_S", 600.0)
    monkeypatch.setattr(QuietHandler, "timeout", 600)


@pytest.fixture
def slow(nothing_ends_by_time, server):
    """Connections that send a request a line at a time, and never its end."""
    address = server._server.server_address
    clients = [socket.create_connection(address, timeout=30) for _ in range(SLOW)]
    for client in clients:
        client.sendall(b"GET /metrics HTTP/1.1\r\n")
    yield clients
    for client in clients:
        client.close()


def is_closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_slow_clients_take_a_bounded_number_of_connections_and_the_page_answers(server, slow):
    host, port = server._server.server_address
    wait_until(lambda: sum(map(is_closed, slow)) >= SLOW - bounded_http._CONNECTIONS, what="the oldest to go")
    with urllib.request.urlopen(f"http://{host}:{port}{METRICS}", timeout=30) as answer:
        assert answer.read() == b"up 1\n"


def test_a_client_that_says_a_little_now_and_then_is_closed_all_the_same(monkeypatch, server):
    monkeypatch.setattr(bounded_http, "_PATIENCE_S", 1.0)
    with socket.create_connection(server._server.server_address, timeout=30) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nx: ")

        def is_cut():
            with contextlib.suppress(OSError):
                client.setblocking(True)
                client.sendall(b"y")
            return is_closed(client)

        wait_until(is_cut, what="the connection to be closed")
