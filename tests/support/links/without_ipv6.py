"""A host that has no IPv6: names may lead there all the same."""

import errno
import os
import socket
from typing import Any


class SocketWithoutIPv6(socket.socket):
    """To be put in the place of `socket.socket`."""

    def __init__(self, family: int = -1, *more: Any, **named: Any) -> None:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        super().__init__(family, *more, **named)
