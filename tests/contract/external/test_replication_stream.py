"""A server that lets one in and says nothing more, as behind a proxy whose own server is gone."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from stores.errors import Unreachable
from stores.external.postgres.log.stream import ReplicationStream

_NO_TLS = (80877103, 80877104)
_WELCOME = (
    (b"R", struct.pack(">i", 0)),
    (b"S", b"server_version\x0016.1\x00"),
    (b"S", b"client_encoding\x00UTF8\x00"),
    (b"K", bytes(8)),
    (b"Z", b"I"),
)


@pytest.fixture
def mute() -> Iterator[int]:
    """Its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError), closing(server.accept()[0]) as connection:
                while asked(connection) in _NO_TLS:
                    connection.sendall(b"N")
                connection.sendall(b"".join(kind + struct.pack(">i", len(said) + 4) + said for kind, said in _WELCOME))
                while connection.recv(4096):
                    pass

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield server.getsockname()[1]
    serving.join(10)


def asked(connection: socket.socket) -> int:
    (length,) = struct.unpack(">i", connection.recv(4))
    (code,) = struct.unpack_from(">i", connection.recv(length - 4))
    return int(code)


def test_the_first_question_is_not_waited_for_for_ever(mute: int) -> None:
    with pytest.raises(Unreachable, match=r"did not answer within 0.5 s"):
        ReplicationStream(f"host=127.0.0.1 port={mute} user=u dbname=d", stalled_s=0.5)
