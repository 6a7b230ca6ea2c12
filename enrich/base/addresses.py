"""What is different if a host's address is one of IPv6, which has colons itself."""

import socket


def family_of(host: str) -> socket.AddressFamily:
    """Of a socket for the address; with a name instead of one it is that of IPv4."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def host_and_port(host: str, port: int) -> str:
    """As they stand in a URL: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
