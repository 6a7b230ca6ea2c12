"""Addresses of both families, as sockets and URLs need them."""

import errno
import socket
from urllib.parse import urlsplit

import pytest

from enrich.base.addresses import connected, family_of, host_and_port, place_of
from tests.support.links.names import leading, silent
from tests.support.links.without_ipv6 import SocketWithoutIPv6


@pytest.mark.parametrize(
    ("host", "family", "text"),
    [
        ("127.0.0.1", socket.AF_INET, "127.0.0.1:80"),
        ("broker", socket.AF_INET, "broker:80"),
        ("::1", socket.AF_INET6, "[::1]:80"),
        ("fe80::1%eth0", socket.AF_INET6, "[fe80::1%eth0]:80"),
    ],
)
def test_an_address_of_ipv6_has_a_family_and_brackets_of_its_own(host, family, text):
    assert (family_of(host), host_and_port(host, 80)) == (family, text)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://[::1]/rows", ("::1", 80)),
        ("https://[fd00::2]", ("fd00::2", 443)),
        ("https://[2001:db8::a]:8443/rows", ("2001:db8::a", 8443)),
        ("http://[fe80::1%25eth0]:8081", ("fe80::1%eth0", 8081)),
        ("http://API.example.com", ("api.example.com", 80)),
        ("https://api.example.com./rows", ("api.example.com", 443)),
    ],
)
def test_the_end_of_an_ipv6_address_is_not_its_port(url, place):
    assert place_of(urlsplit(url)) == place


def test_an_address_that_is_silent_leaves_time_for_those_behind_it():
    with socket.create_server(("127.0.0.1", 0)) as server, silent() as place:
        there = server.getsockname()
        with leading(place, place, there), connected("hook.example", 80, 0.6) as plain:
            assert (plain.getpeername(), plain.gettimeout()) == (there, 0.6)


def test_of_addresses_that_take_no_connection_the_last_error_is_told(monkeypatch):
    with silent() as place, leading(place, ("127.0.0.1", 1)), pytest.raises(ConnectionRefusedError):
        connected("hook.example", 80, 0.2)
    monkeypatch.setattr(socket, "socket", SocketWithoutIPv6)
    with leading(("::1", 1)), pytest.raises(OSError) as raised:
        connected("hook.example", 80, 0.2)
    assert raised.value.errno == errno.EAFNOSUPPORT
