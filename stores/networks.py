"""Networks and addresses as numbers, for tables whose keys are CIDR networks."""

import ipaddress
from typing import NamedTuple

_V4_MAPPED = 0xFFFF << 32


class Network(NamedTuple):
    """A network in the IPv6 address space; IPv4 is mapped to ::ffff:0:0/96."""

    prefix_length: int
    bits: int

    @classmethod
    def around(cls, address: int, prefix_length: int) -> "Network":
        """The network of this length that contains the address."""
        return cls(prefix_length, address >> (128 - prefix_length))


def shortest_prefix(address: int) -> int:
    """The shortest prefix of a network that may contain the address. No IPv6 network, not even ::/0, contains an IPv4
    address."""
    return 96 if address >> 32 == 0xFFFF else 0


def parse_network(key: bytes) -> Network:
    """The network that a key names; host bits that are set in it are masked.

    A single address is the network of its full length. Raises ValueError with the reason.
    """
    text = key.decode()
    _, slash, length = text.partition("/")
    if slash and not (length.isascii() and length.isdigit()):
        raise ValueError(f"{length!r} is no prefix length")  # ipaddress would also take masks: 10.0.0.0/255.0.0.0
    interface = ipaddress.ip_interface(text)
    if getattr(interface, "scope_id", None):
        raise ValueError("an address with a scope is no network")
    prefix_length = interface.network.prefixlen + (96 if interface.version == 4 else 0)
    return Network.around(_number(interface.ip), prefix_length)


def parse_address(key: bytes) -> int:
    """The address as a number, IPv4 as its v4-mapped address. Raises ValueError with the reason."""
    address = ipaddress.ip_address(key.decode())
    if getattr(address, "scope_id", None):
        raise ValueError("an address with a scope is local to one host")
    return _number(address)


def _number(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> int:
    return int(address) | _V4_MAPPED if address.version == 4 else int(address)
