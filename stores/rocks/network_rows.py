"""Networks as keys of rows: the prefix length, then the address with its host bits zero."""

import ipaddress
from collections.abc import Iterable

from stores.networks import Network, parse_address, shortest_prefix


def network_key(network: Network) -> bytes:
    return bytes([network.prefix_length]) + _address(network).to_bytes(16, "big")


def network_text(key: bytes) -> bytes:
    """The network as people write it. IPv4 networks are stored as v4-mapped ones (::ffff:0:0/96)."""
    length, address = key[0], int.from_bytes(key[1:], "big")
    if length >= 96 and address >> 32 == 0xFFFF:
        return str(ipaddress.IPv4Network((address & 0xFFFF_FFFF, length - 96))).encode()
    return str(ipaddress.IPv6Network((address, length))).encode()


def networks_around(address: bytes, lengths: Iterable[int]) -> list[bytes] | None:
    """The keys of the networks of these lengths that contain the address; None if it is not an address."""
    try:
        number = parse_address(address)
    except ValueError:
        return None
    shortest = shortest_prefix(number)
    return [network_key(Network.around(number, length)) for length in lengths if length >= shortest]


def _address(network: Network) -> int:
    return network.bits << (128 - network.prefix_length)
