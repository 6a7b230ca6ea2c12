"""No name leads expel into the network that it stands in, in whichever notation its addresses come."""

from ipaddress import IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enrich.base.errors import ConfigError
from enrich.endpoints.addresses import public, why_private


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.0.1",
        "0.0.0.0",  # noqa: S104 - nobody listens on it
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "224.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "::1",
        "::",
        "fe80::1",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:a9fe:a9fe",
        "::7f00:1",
        "64:ff9b::10.0.0.1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "2001:db8::1",
        "192.0.0.8",
        "240.0.0.1",
        "fec0::1",
        "3fff::1",
        "5f00::1",
        "64:ff9b:1::a00:1",
        "1fff::1",
        "4000::1",
        "::2",
        "::ffff:0:7f00:1",
        "::ffff:0:a9fe:a9fe",
    ],
)
def test_an_address_that_nobody_outside_can_have_is_private(address):
    assert why_private(ip_address(address)) is not None


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "8.8.8.8",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "::ffff:0:8.8.8.8",
        "2002:808:808::",
    ],
)
def test_others_are_public(address):
    assert why_private(ip_address(address)) is None


@given(st.ip_addresses(v=4))
def test_an_address_is_as_private_as_what_it_stands_for(older):
    is_private = why_private(older) is not None
    for prefix in ("::ffff:0:0", "::ffff:0:0:0", "64:ff9b::"):
        assert (why_private(IPv6Address(int(IPv6Address(prefix)) + int(older))) is not None) is is_private
    assert (why_private(IPv6Address(0x2002 << 112 | int(older) << 80)) is not None) is is_private


def test_of_a_names_addresses_only_public_ones_are_connected_to():
    assert public("a.example", ["10.0.0.1", "8.8.8.8", "::1", "1.1.1.1"], "url") == ["8.8.8.8", "1.1.1.1"]
    with pytest.raises(ConfigError, match=r"a\.example leads to no public address: 10\.0\.0\.1 is private"):
        public("a.example", ["10.0.0.1", "fe80::1%eth0"], "url")
    with pytest.raises(ConfigError, match="it has no address"):
        public("a.example", [], "url")
