"""The observer's page answers who asks for heads alone, as it does others."""

import socket

import pytest

from enrich.service.page import Page
from observe_service.page.server import PageServer, Watchers


@pytest.mark.parametrize(
    ("path", "status"),
    [("/", 200), ("/api/state", 200), ("/api/events", 200), ("/api/none", 404), ("/metrics", 200), ("/readyz", 503)],
)
def test_a_head_has_no_content_and_ends(path: str, status: int) -> None:
    watchers = Watchers()
    page = Page(lambda: b"up 1\n", dict, not_ready=lambda: {"brokers": "away"})
    server = PageServer("127.0.0.1", 0, page, {"state": lambda _: {"up": True}}, watchers, None)
    host, port = server.address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=30) as client:
            client.sendall(f"HEAD {path} HTTP/1.0\r\n\r\n".encode())
            answer = b"".join(iter(lambda: client.recv(65_536), b""))
    finally:
        server.close()
    head, _, content = answer.partition(b"\r\n\r\n")
    assert (head.split()[1], content) == (b"%d" % status, b"")
    assert b"Content-Security-Policy" in head
    assert not watchers.count
