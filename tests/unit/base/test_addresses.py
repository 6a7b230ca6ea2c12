"""Addresses of both families, as sockets and URLs need them."""

import socket

import pytest

from enrich.base.addresses import family_of, host_and_port


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
