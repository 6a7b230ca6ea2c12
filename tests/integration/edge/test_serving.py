"""Processes share a port, certificates are renewed, a server stops: whoever was accepted gets an answer."""

import asyncio
import shutil
import socket
import ssl
import threading
from contextlib import closing, suppress
from http import HTTPStatus
from pathlib import Path

import pytest
import uvloop

from edge_service.ingest.wire import stalling
from edge_service.ingest.wire.connection import Answer
from edge_service.ingest.wire.serving import Certificates, Serving
from tests.support.waiting import wait_until

# Made with openssl for these tests, valid for a hundred years for 127.0.0.1, and trusted by nothing.
PEM = Path(__file__).parent / "pem"
PATIENCE_S = 60
REQUEST = b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}"


class Holding:
    """An endpoint that answers when it is told to."""

    body_deadline_s = 60.0

    def __init__(self):
        self.taken = []

    def admit(self, _request):
        return None

    def most_body(self, _request):
        return 1000

    def body_deadline_of(self, _request):
        return 60.0

    def reserve(self, _request, _count):
        return True

    def release(self, _request, _count):
        pass

    def count(self, _request, _answer):
        pass

    def take(self, _request, done):
        self.taken.append(done)

    def answer(self):
        while self.taken:
            self.taken.pop(0)(Answer(HTTPStatus.OK, b"{}"))


class Generous(Holding):
    """Answers at once, and with much."""

    size = 50_000

    def take(self, _request, done):
        self.taken.append(done)
        done(Answer(HTTPStatus.OK, bytes(self.size)))


@pytest.fixture
def loop():
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PATIENCE_S)
    loop.close()


def on(loop, coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result(PATIENCE_S)


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def is_refused(port):
    try:
        connect(port).close()
    except (ConnectionRefusedError, ConnectionResetError):
        return True
    return False


def all_of(connection):
    """What comes until the other side closes."""
    pieces = []
    while piece := connection.recv(65_536):
        pieces.append(piece)
    return b"".join(pieces)


def test_a_server_that_stops_answers_what_is_under_way_and_takes_no_more(loop):
    endpoint = Holding()
    serving = Serving(endpoint, loop)
    port = on(loop, serving.start("127.0.0.1", 0))
    with closing(connect(port)) as busy, closing(connect(port)) as idle:
        busy.sendall(REQUEST * 2)
        wait_until(lambda: len(endpoint.taken) == 2)
        wait_until(lambda: len(serving.open) == 2)
        stopping = asyncio.run_coroutine_threadsafe(serving.stop(PATIENCE_S), loop)
        assert all_of(idle) == b""
        wait_until(lambda: is_refused(port))
        assert not stopping.done()
        loop.call_soon_threadsafe(endpoint.answer)
        answers = all_of(busy)
        assert stopping.result(PATIENCE_S) == 0
    assert answers.count(b"HTTP/1.1 200 OK") == 2
    assert answers.count(b"connection: close") == 1


def test_what_is_not_answered_in_time_is_cut_off_and_counted(loop):
    endpoint = Holding()
    serving = Serving(endpoint, loop)
    port = on(loop, serving.start("127.0.0.1", 0))
    with closing(connect(port)) as busy:
        busy.sendall(REQUEST)
        wait_until(lambda: endpoint.taken)
        assert on(loop, serving.stop(0.1)) == 1
        assert all_of(busy) == b""
    loop.call_soon_threadsafe(endpoint.answer)  # too late, and no error


def test_a_connection_whose_handshake_ends_while_the_server_stops_is_not_served_any_more(loop):
    endpoint = Holding()
    serving = Serving(endpoint, loop)
    port = on(loop, serving.start("127.0.0.1", 0, Certificates(PEM / "first.pem", PEM / "first.key").context))
    trusting = ssl.create_default_context(cafile=PEM / "first.pem")

    def secured(plain):
        return trusting.wrap_socket(plain, server_hostname="127.0.0.1")

    late, later = connect(port), connect(port)  # before the next one, so that they are accepted
    with closing(secured(connect(port))) as busy:
        busy.sendall(REQUEST)
        wait_until(lambda: endpoint.taken)
        stopping = asyncio.run_coroutine_threadsafe(serving.stop(PATIENCE_S), loop)
        wait_until(lambda: is_refused(port))
        with closing(secured(late)) as connection:
            assert all_of(connection) == b""
        assert not stopping.done()
        loop.call_soon_threadsafe(endpoint.answer)
        assert busy.recv(15) == b"HTTP/1.1 200 OK"
    assert stopping.result(PATIENCE_S) == 0
    with closing(secured(later)) as connection:  # after all, and its events would be in no tally
        assert all_of(connection) == b""
    assert not endpoint.taken
    wait_until(lambda: not serving.open)


def test_servers_share_a_port(loop):
    first, second = Serving(Holding(), loop), Serving(Holding(), loop)
    port = on(loop, first.start("127.0.0.1", 0))
    assert on(loop, second.start("127.0.0.1", port)) == port
    connections = [connect(port) for _ in range(100)]
    try:
        wait_until(lambda: len(first.open) + len(second.open) == 100)
        assert first.open
        assert second.open
    finally:
        for connection in connections:
            connection.close()
        on(loop, first.stop(PATIENCE_S))
        on(loop, second.stop(PATIENCE_S))


def test_a_renewed_certificate_is_given_to_new_connections_and_a_wrong_one_to_nobody(loop, tmp_path):
    def put(certificate, key):
        shutil.copy(PEM / f"{key}.key", tmp_path / "server.key")
        shutil.copy(PEM / f"{certificate}.pem", tmp_path / "server.pem")

    def shown():
        """The certificate that a new connection gets to see, and the connection."""
        context = ssl.create_default_context(cafile=PEM / "first.pem")
        context.load_verify_locations(PEM / "second.pem")
        connection = context.wrap_socket(connect(port), server_hostname="127.0.0.1")
        return names[connection.getpeercert(binary_form=True) or b""], connection

    names = {ssl.PEM_cert_to_DER_cert((PEM / f"{name}.pem").read_text()): name for name in ("first", "second")}
    put("first", "first")
    certificates = Certificates(tmp_path / "server.pem", tmp_path / "server.key")
    endpoint = Holding()
    serving = Serving(endpoint, loop)
    port = on(loop, serving.start("127.0.0.1", 0, certificates.context))
    name, old = shown()
    assert name == "first"
    assert not certificates.look()
    put("second", "first")
    assert not certificates.look()
    name, between = shown()
    assert name == "first"
    put("second", "second")
    assert certificates.look()
    name, new = shown()
    assert name == "second"
    for connection in (old, between, new):
        connection.sendall(REQUEST)
    wait_until(lambda: len(endpoint.taken) == 3)
    loop.call_soon_threadsafe(endpoint.answer)
    for connection in (old, between, new):
        assert connection.recv(15) == b"HTTP/1.1 200 OK"
        connection.close()
    on(loop, serving.stop(PATIENCE_S))


def test_a_sender_that_ends_its_side_of_tls_before_it_has_its_answer_is_not_worth_a_line_in_the_log(loop, caplog):
    endpoint = Holding()
    serving = Serving(endpoint, loop)
    context = Certificates(PEM / "first.pem", PEM / "first.key").context
    port = on(loop, serving.start("127.0.0.1", 0, context))
    trusting = ssl.create_default_context(cafile=PEM / "first.pem")
    with closing(trusting.wrap_socket(connect(port), server_hostname="127.0.0.1")) as connection:
        connection.sendall(REQUEST)
        wait_until(lambda: len(endpoint.taken) == 1)
        with suppress(OSError):
            connection.unwrap()
    wait_until(lambda: not serving.open)
    loop.call_soon_threadsafe(endpoint.answer)
    on(loop, serving.stop(PATIENCE_S))
    assert caplog.records == []


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def generous(request, loop):
    """A server whose answers are large, what is open there, and a way to connect to it."""
    endpoint = Generous()
    serving = Serving(endpoint, loop)
    certificates = Certificates(PEM / "first.pem", PEM / "first.key") if request.param else None
    port = on(loop, serving.start("127.0.0.1", 0, None if certificates is None else certificates.context))

    def connected():
        plain = connect(port)
        if certificates is None:
            return plain
        context = ssl.create_default_context(cafile=PEM / "first.pem")
        return context.wrap_socket(plain, server_hostname="127.0.0.1")

    yield endpoint, serving, connected
    on(loop, serving.stop(PATIENCE_S))


MANY = 5_000
"""Requests in one piece: 250 MB of answers."""


def unread_bytes(serving, loop):
    async def count():
        return sum(connection._transport.get_write_buffer_size() for connection in serving.open)

    return on(loop, count())


def test_a_sender_gets_as_many_answers_as_it_reads_and_then_the_others(loop, generous):
    endpoint, serving, connected = generous
    with closing(connected()) as sender:
        sending = threading.Thread(target=sender.sendall, args=(REQUEST * MANY,))
        sending.start()
        wait_until(lambda: unread_bytes(serving, loop) > 50_000)
        assert unread_bytes(serving, loop) < 1 << 20
        assert len(endpoint.taken) < MANY
        left = MANY * 50_000
        while left > 0:
            left -= len(sender.recv(1 << 20))
            assert unread_bytes(serving, loop) < 1 << 20 or left < 0
        sending.join(PATIENCE_S)
        wait_until(lambda: len(endpoint.taken) == MANY)


def test_a_sender_that_reads_nothing_is_cut_off(loop, generous, monkeypatch):
    _, serving, connected = generous
    monkeypatch.setattr(stalling, "LONGEST_STILL_S", 0.3)
    with closing(connected()) as sender:
        wait_until(lambda: serving.open)
        sending = threading.Thread(target=_sent_or_cut_off, args=(sender, REQUEST * MANY))
        sending.start()
        wait_until(lambda: not serving.open)
        sending.join(PATIENCE_S)


def test_a_sender_that_does_not_read_its_last_answer_is_cut_off(loop, generous, monkeypatch):
    endpoint, serving, connected = generous
    monkeypatch.setattr(stalling, "LONGEST_STILL_S", 0.3)
    endpoint.size = 32 << 20  # more than what lies between the two holds
    last = REQUEST.replace(b"host: h", b"host: h\r\nconnection: close")
    with closing(connected()) as sender:
        wait_until(lambda: serving.open)
        sender.sendall(last)
        wait_until(lambda: not serving.open)


def _sent_or_cut_off(sender, data):
    with suppress(OSError):
        sender.sendall(data)


def test_offers_of_another_protocol_are_ignored_in_each_of_many_requests_of_one_piece(loop, generous):
    endpoint, _, connected = generous
    offer = REQUEST.replace(b"host: h", b"host: h\r\nconnection: upgrade\r\nupgrade: h2c")
    with closing(connected()) as sender:
        sending = threading.Thread(target=sender.sendall, args=(offer * 2_000,))
        sending.start()
        left = 2_000 * 50_000
        while left > 0:
            left -= len(sender.recv(1 << 20))
        sending.join(PATIENCE_S)
        wait_until(lambda: len(endpoint.taken) == 2_000)
