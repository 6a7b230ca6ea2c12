"""What stands at an address is told in words, whoever stands there. Local sockets only."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from enrich.kafka.clients.probing import Address, addresses_of, troubles
from tests.support.links.names import leading, silent


@pytest.fixture
def listening() -> Iterator[Callable[..., Address]]:
    """Something that listens on this host and gives whoever comes one answer; None: it says nothing."""
    clients: list[socket.socket] = []
    with ExitStack() as held:

        def listen(answer: bytes | None) -> Address:
            server = held.enter_context(socket.create_server(("127.0.0.1", 0)))

            def serve():
                with suppress(OSError):
                    while True:
                        client, _ = server.accept()
                        clients.append(client)  # of all servers, each in a thread of its own
                        if answer is not None:
                            client.recv(1000)
                            client.sendall(answer)
                            client.close()

            threading.Thread(target=serve, daemon=True).start()
            held.callback(server.shutdown, socket.SHUT_RDWR)  # ends the thread's wait
            return Address("127.0.0.1", server.getsockname()[1])

        yield listen
    for client in clients:
        client.close()


def told(address: Address, *, encrypted: bool = False) -> str:
    return troubles([address], encrypted=encrypted, patience_s=1.0)[address].what


def test_an_address_where_no_broker_is_says_why(listening):
    assert "knows no such name" in told(Address("no-such-host.invalid", 9092))
    assert "refused" in told(Address("127.0.0.1", 1))
    assert "sends nothing" in told(listening(None))
    assert "sends nothing" in told(listening(None), encrypted=True)
    assert "not as Kafka does" in told(listening(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    assert "closes the connection" in told(listening(b""))


def test_one_that_answers_as_a_broker_is_left_out(listening):
    # Length, and the number of the question that was asked.
    answering = listening(b"\x00\x00\x00\x10" + (4711).to_bytes(4, "big") + b"\x00" * 12)
    silent = listening(None)
    assert list(troubles([answering, silent], encrypted=False, patience_s=1.0)) == [silent]


def test_a_name_of_several_addresses_is_tried_at_each_of_them(listening):
    answering = listening(b"\x00\x00\x00\x10" + (4711).to_bytes(4, "big") + b"\x00" * 12)
    address = Address("broker.example", 9092)
    with silent() as place:
        with leading(place, ("127.0.0.1", answering.port)):
            assert troubles([address], encrypted=False, patience_s=1.0) == {}
        with leading(*[place] * 4):
            assert "nothing answers the attempt to connect" in told(address)


@pytest.mark.parametrize(
    ("servers", "found"),
    [
        ("a:1,b:2", ["a:1", "b:2"]),
        (" a , SASL_SSL://b:9093", ["a:9092", "b:9093"]),
        ("[::1]:9092", ["[::1]:9092"]),
    ],
)
def test_addresses_are_read_as_the_client_reads_them(servers, found):
    assert [str(address) for address in addresses_of(servers)] == found
