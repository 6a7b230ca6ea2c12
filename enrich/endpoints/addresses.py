"""Where a route may connect to: an endpoint's name must not lead into the network that expel itself stands in."""

import ipaddress
from collections.abc import Sequence

from enrich.base.errors import ConfigError

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_STAND_FOR_OLDER = tuple(ipaddress.IPv6Network(net) for net in ("64:ff9b::/96", "::ffff:0:0:0/96", "::/96"))
"""NAT64, SIIT, and IPv4-compatible addresses: their last four bytes are an address of the older protocol."""
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""The only ones that are given out: everything else is local, or means something else some day."""
_NOT_KNOWN_TO_PYTHON = (ipaddress.IPv6Network("3fff::/20"), ipaddress.IPv4Network("192.0.0.0/24"))
"""Whether `is_global` is right about these depends on the release."""

_MOST_LISTED = 6


def why_private(address: IPAddress) -> str | None:
    """Why nobody outside can have this address; None if it is a public one."""
    inner = _inner(address)
    if inner is not None:
        reason = why_private(inner)
        return None if reason is None else f"{reason}, within {address}"
    if address.is_loopback:
        return f"{address} is this host itself"
    if address.is_link_local:
        return f"{address} is link-local"
    if address.is_multicast:
        return f"{address} is a group of hosts"
    is_outside = address.is_global and not any(address in net for net in _NOT_KNOWN_TO_PYTHON)
    if not is_outside or (isinstance(address, ipaddress.IPv6Address) and address not in _UNICAST):
        return f"{address} is private"
    return None


def public(name: str, addresses: Sequence[str], where: str) -> list[str]:
    """Those of a name's addresses that may be connected to, in their order. The connection is made to one of them, not
    to the name, which may lead elsewhere a moment later. Raises ConfigError if there is none."""
    reasons = {address: why_private(ipaddress.ip_address(address.partition("%")[0])) for address in addresses}
    allowed = [address for address in addresses if reasons[address] is None]
    if allowed:
        return allowed
    listed = "; ".join(str(reason) for reason in [*reasons.values()][:_MOST_LISTED]) or "it has no address"
    raise ConfigError(
        f"{name} leads to no public address: {listed}",
        where=where,
        next_step="correct the url, or allow it with `allow_private: true`",
    )


def _inner(address: IPAddress) -> IPAddress | None:
    """The address of the older protocol that this one stands for."""
    if not isinstance(address, ipaddress.IPv6Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if int(address) > 1 and any(address in net for net in _STAND_FOR_OLDER):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None
