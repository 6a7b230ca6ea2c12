"""What can go wrong on the way to a registry, played by a server of the test's own."""

import base64
import http.server
import itertools
import json
import socket
import ssl
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from enrich.base.errors import BadRecord, ConfigError, Unreachable
from enrich.codecs.avro.schemas.registry import Registry, RegistryAccess
from tests.support.links.names import leading, silent
from tests.support.servers.scripted_endpoint import ScriptedEndpoint, sends_slowly

# Made with openssl for these tests, valid for a hundred years for 127.0.0.1, and trusted by nothing.
PEM = Path(__file__).parent / "pem"
SCHEMA = '{"type": "record", "name": "R", "fields": []}'


@contextmanager
def serving(answer, *, tls=None):
    """A server that answers each request by a function of it: (status, body)."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self)
            status, body = answer(self)
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.do_GET()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that go away are the test
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def get(url, **access):
    return Registry(RegistryAccess(url, **access), deadline_s=5).get(7)


def _port(url):
    return int(url.rpartition(":")[2])


def test_the_schema_is_asked_for_by_its_id_below_the_path_of_the_address():
    with serving(lambda _: (200, {"schema": SCHEMA})) as (url, asked):
        assert get(url + "/api/") == SCHEMA
    assert [request.path for request in asked] == ["/api/schemas/ids/7"]
    assert "Authorization" not in asked[0].headers


@pytest.mark.parametrize("in_address", [False, True])
def test_user_and_password_are_sent(in_address):
    with serving(lambda _: (200, {"schema": SCHEMA})) as (url, asked):
        if in_address:
            get(url.replace("//", "//ann:p%40ss@"))
        else:
            get(url, username="ann", password="p@ss")  # noqa: S106 - of nobody
    assert base64.b64decode(asked[0].headers["Authorization"].removeprefix("Basic ")) == b"ann:p@ss"


@pytest.mark.parametrize(
    ("status", "body", "error", "message"),
    [
        (404, {"error_code": 40403, "message": "Schema not found"}, BadRecord, "schema id 7 is not in the schema reg"),
        (404, b"<html>", ConfigError, "status 404"),
        (401, b"", ConfigError, "refuses us with status 401"),
        (403, b"", ConfigError, "refuses us with status 403"),
        (302, b"", ConfigError, "status 302"),
        (200, b"<html>", ConfigError, "status 200"),
        (200, {}, ConfigError, "without a schema"),
        (200, {"schema": SCHEMA, "references": 5}, ConfigError, "references"),
        (200, {"schema": SCHEMA, "references": [5]}, ConfigError, "reference without"),
        (200, {"schema": "m", "schemaType": "PROTOBUF"}, BadRecord, "of type PROTOBUF, not avro"),
        (200, b"[" * 10_000, ConfigError, "not the answer of a schema registry"),
        (200, b" " * (4 * 2**20 + 1), ConfigError, "more than 4 MiB"),
        (429, b"", Unreachable, "status 429"),
        (500, {"error_code": 50001}, Unreachable, "status 500"),
        (503, b"", Unreachable, "status 503"),
    ],
)
def test_each_answer_says_who_must_act(status, body, error, message):
    with serving(lambda _: (status, body)) as (url, _), pytest.raises(error, match=message) as caught:
        get(url.replace("//", "//ann:hunter2@"))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("schema_id", [2**31, 2**32 - 1])
def test_an_id_that_no_registry_has_given_makes_its_record_bad(schema_id):
    """Confluent's registry does not know the path: its ids have 31 bits."""
    answer = 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
    with serving(lambda _: answer) as (url, _):
        with pytest.raises(BadRecord, match=f"schema id {schema_id} is not in the schema registry"):
            Registry(RegistryAccess(url), deadline_s=5).get(schema_id)
        with pytest.raises(ConfigError, match="status 404"):  # perhaps the address is wrong
            Registry(RegistryAccess(url), deadline_s=5).get(2**31 - 1)


def test_an_ipv6_address_without_a_port_is_asked_at_the_port_of_its_scheme():
    answer = 200, {"schema": SCHEMA}
    with serving(lambda _: answer) as (url, _), leading(("127.0.0.1", _port(url))) as names:
        assert get("http://[fd00::2]/api") == SCHEMA
    assert names == [("fd00::2", 80)]


@pytest.mark.parametrize("url", ["http://[::1]:1/api", "http://127.0.0.1:1"])
def test_an_address_is_shown_as_it_is_written(url):
    with pytest.raises(Unreachable) as caught:
        get(url)
    assert caught.value.where == url


def test_of_a_name_whose_first_addresses_are_silent_the_next_one_is_asked():
    answer = 200, {"schema": SCHEMA}
    with serving(lambda _: answer) as (url, _), silent() as place, leading(place, place, ("127.0.0.1", _port(url))):
        assert Registry(RegistryAccess("http://registry.example"), deadline_s=2).get(7) == SCHEMA


def test_references_that_never_end_make_the_record_bad():
    numbers = itertools.count()

    def answer(_):
        reference = {"name": "x", "subject": f"s{next(numbers)}", "version": 1}
        return 200, {"schema": SCHEMA, "references": [reference]}

    with serving(answer) as (url, _), pytest.raises(BadRecord, match="more than 100 other schemas"):
        get(url)


def test_a_server_that_is_away_is_unreachable():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unreachable, match=f"127.0.0.1:{port}"):
        get(f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nx-more: "])
def test_a_server_that_drips_bytes_is_given_up_at_the_deadline(start):
    began = time.monotonic()
    with ScriptedEndpoint(sends_slowly([start, *[b" "] * 300], 0.1)) as dripping:
        with pytest.raises(Unreachable, match="within 1 s"):
            Registry(RegistryAccess(dripping.url(path="")), deadline_s=1).get(7)
        assert time.monotonic() - began < 10


def test_a_server_that_says_nothing_is_given_up_at_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(Unreachable, match="did not answer"):
        Registry(RegistryAccess(f"http://127.0.0.1:{silent.getsockname()[1]}"), deadline_s=0.2).get(7)


def own_certificate():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM / "server.pem", PEM / "server.key")
    return context


def test_a_certificate_that_nobody_vouches_for_is_refused():
    with (
        serving(lambda _: (200, {"schema": SCHEMA}), tls=own_certificate()) as (url, _),
        pytest.raises(ConfigError, match="not trusted"),
    ):
        get(url)


def test_a_certificate_that_the_ca_file_vouches_for_is_taken():
    with serving(lambda _: (200, {"schema": SCHEMA}), tls=own_certificate()) as (url, _):
        assert get(url, ca_file=str(PEM / "server.pem")) == SCHEMA


@pytest.mark.parametrize("url", ["localhost:8081", "ftp://host", "http://", "http://host:99999", "http://host:x"])
def test_an_address_that_is_none_is_refused_at_start(url):
    with pytest.raises(ConfigError, match="schema registry's address"):
        Registry(RegistryAccess(url))


@pytest.mark.parametrize("name", ["ca_file", "cert_file"])
def test_files_that_cannot_be_read_are_refused_at_start(name):
    with pytest.raises(ConfigError, match=r"check kafka\.registry\.ca_file"):
        Registry(RegistryAccess("https://host", **{name: "/nowhere.pem"}))


NONE = 404, {"error_code": 40401, "message": "Subject not found"}


@pytest.mark.parametrize("status", [409, 422])
def test_a_registry_that_refuses_a_new_schema_says_so(status):
    def answer(request):
        return (status, {"error_code": status * 100 + 1}) if request.command == "POST" else NONE

    with serving(answer) as (url, asked), pytest.raises(ConfigError) as raised:
        Registry(RegistryAccess(url)).latest_or_new("t-value", lambda: SCHEMA)
    assert f"refuses the schema that the stage made for t-value, with status {status}" in str(raised.value)
    assert [request.command for request in asked] == ["GET", "POST"]


def test_a_subject_with_something_else_than_avro_gets_no_schema_of_ours():
    def answer(request):
        return 200, ({"id": 7} if "latest" in request.path else {"schemaType": "PROTOBUF", "schema": "message R {}"})

    with serving(answer) as (url, asked), pytest.raises(ConfigError, match="is of type PROTOBUF, not avro"):
        Registry(RegistryAccess(url)).latest_or_new("t-value", lambda: SCHEMA)
    assert {request.command for request in asked} == {"GET"}
