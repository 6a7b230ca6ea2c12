"""An endpoint is believed by its certificate for the name that was asked for, whichever address it has."""

import shutil
import socket
from typing import Any

import pytest
import uvloop

from enrich.base.errors import ConfigError
from enrich.config.sections.edges.expel import HttpEndpoint
from enrich.endpoints.http import Answer, HttpClient, NoAnswer, Place
from tests.support.edge.posting import WHERE, client_of, outcome, posted
from tests.support.servers.scripted_endpoint import PEM, ScriptedEndpoint, answers, closes, sends, server_tls, whole

AUTHORITY = str(PEM / "authority.pem")
OURS: dict[str, Any] = {"cert_file": str(PEM / "issued-local.pem"), "key_file": str(PEM / "issued.key")}
ANSWERED = Answer(200, None, "")


async def here(_name, port):
    return [Place(socket.AF_INET, ("127.0.0.1", port))]


@pytest.mark.parametrize(
    ("host", "certificate"),
    [
        ("127.0.0.1", "issued-local"),
        ("localhost", "issued-local"),
        ("localhost.", "issued-local"),
        ("bücher.example", "issued-local"),
        ("other.example", "issued-other"),
    ],
)
def test_a_certificate_for_the_name_is_believed(host, certificate):
    names = []
    tls = server_tls(certificate)
    tls.sni_callback = lambda _socket, name, _context: names.append(name)
    with ScriptedEndpoint(tls=tls) as endpoint:
        outcomes = posted(endpoint, b"1", b"2", host=host, ca_file=AUTHORITY, resolve=here)
    assert outcomes == [ANSWERED] * 2
    assert endpoint.connections == 1
    ascii_name = host.encode("idna").decode().removesuffix(".")
    assert names == [None if host == "127.0.0.1" else ascii_name]


@pytest.mark.parametrize(
    ("host", "certificate", "authority", "reason"),
    [
        ("127.0.0.1", "issued-local", None, "unable to get local issuer certificate"),
        ("127.0.0.1", "issued-local", "first", "unable to get local issuer certificate"),
        ("127.0.0.1", "first", None, "self-signed certificate"),
        ("127.0.0.1", "issued-expired", "authority", "certificate has expired"),
        ("127.0.0.1", "issued-other", "authority", "ip address mismatch, certificate is not valid for '127.0.0.1'"),
        (
            "other.example",
            "issued-local",
            "authority",
            "hostname mismatch, certificate is not valid for 'other.example'",
        ),
    ],
)
def test_any_other_certificate_gets_no_request(host, certificate, authority, reason):
    settings: dict[str, Any] = {} if authority is None else {"ca_file": str(PEM / f"{authority}.pem")}
    with ScriptedEndpoint(tls=server_tls(certificate)) as endpoint:
        (none,) = posted(endpoint, b"1", host=host, resolve=here, **settings)
    assert none.reason == f"TLS with 127.0.0.1:{endpoint.port}: {reason}"
    assert not none.may_have_arrived
    assert endpoint.requests == []


def test_an_endpoint_that_wants_to_know_us_does():
    with ScriptedEndpoint(tls=server_tls("issued-local", asks_for=PEM / "authority.pem")) as endpoint:
        assert posted(endpoint, b"1", ca_file=AUTHORITY, **OURS) == [ANSWERED]


def test_without_our_certificate_it_takes_no_request():
    with ScriptedEndpoint(tls=server_tls("issued-local", asks_for=PEM / "authority.pem")) as endpoint:
        (none,) = posted(endpoint, b"1", ca_file=AUTHORITY)
    assert isinstance(none, NoAnswer)
    assert "certificate required" in none.reason
    assert endpoint.requests == []


def test_files_that_changed_are_read_for_the_next_connection(tmp_path):
    def put(name, source):
        shutil.copy(PEM / source, tmp_path / "new")
        (tmp_path / "new").rename(tmp_path / name)

    put("ours.pem", "issued-expired.pem")
    put("ours.key", "issued.key")
    put("ca.pem", "first.pem")
    files: dict[str, Any] = {
        "ca_file": str(tmp_path / "ca.pem"),
        "cert_file": str(tmp_path / "ours.pem"),
        "key_file": str(tmp_path / "ours.key"),
    }

    async def post():
        async with client_of(endpoint.url(), **files) as client:
            outcomes = [await outcome(client)]
            put("ca.pem", "authority.pem")
            outcomes.append(await outcome(client))
            put("ours.pem", "first.pem")  # not ours: the key is another
            outcomes.append(await outcome(client))
            put("ours.pem", "issued-local.pem")
            return [*outcomes, await outcome(client)]

    closing = sends(whole(200, headers=[("Connection", "close")]))
    with ScriptedEndpoint(closing, tls=server_tls("issued-local", asks_for=PEM / "authority.pem")) as endpoint:
        no_authority, expired, not_taken, good = uvloop.run(post())
    assert "self-signed certificate in certificate chain" in no_authority.reason
    assert "certificate expired" in expired.reason
    assert "certificate expired" in not_taken.reason
    assert good == ANSWERED


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"ca_file": "missing.pem"}, "ca_file cannot be used: No such file or directory"),
        ({"ca_file": "issued.key"}, "ca_file cannot be used: no certificate or crl found"),
        ({"cert_file": "missing.pem", "key_file": "issued.key"}, "cert_file cannot be used: No such file"),
        ({"cert_file": "first.pem", "key_file": "issued.key"}, "cert_file cannot be used: key values mismatch"),
        ({"cert_file": "issued.key", "key_file": "issued.key"}, "cert_file cannot be used: "),
    ],
)
def test_files_that_cannot_be_used_are_said_at_once(files, message):
    settings = {key: str(PEM / name) for key, name in files.items()}
    with pytest.raises(ConfigError, match=message) as caught:
        HttpClient(HttpEndpoint.model_validate({"url": "https://localhost/", **settings}), 1, WHERE)
    assert caught.value.where == WHERE


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_its_password():
    settings = {"cert_file": str(PEM / "first.pem"), "key_file": str(PEM / "locked.key")}
    with pytest.raises(ConfigError, match="cert_file cannot be used: the key is encrypted"):
        HttpClient(HttpEndpoint.model_validate({"url": "https://localhost/", **settings}), 1, WHERE)


def test_an_endpoint_without_tls_gets_no_request():
    with ScriptedEndpoint() as endpoint:
        url = endpoint.url().replace("http:", "https:")

        async def post():
            async with client_of(url, ca_file=AUTHORITY, timeout="300ms") as client:
                return await outcome(client, b"1")

        none = uvloop.run(post())  # it waits for the end of a head
    assert (none.reason, none.may_have_arrived) == ("no connection within 0.3 s", False)
    assert endpoint.requests == []


def test_lost_answers_are_none_with_tls_too():
    with ScriptedEndpoint(
        closes, sends(whole(200, b"body")[:-1]), answers(), tls=server_tls("issued-local")
    ) as endpoint:
        lost, cut, answered = posted(endpoint, b"1", b"2", b"3", ca_file=AUTHORITY)
    assert (lost.may_have_arrived, cut.may_have_arrived) == (True, True)
    assert "without an answer" in lost.reason
    assert "before the answer was whole" in cut.reason
    assert answered == ANSWERED
    assert [request.body for request in endpoint.requests] == [b"1", b"2", b"3"]


def test_an_address_that_shows_a_wrong_certificate_is_passed_over():
    async def both(_name, port):
        return [Place(socket.AF_INET, (ip, port)) for ip in ("127.0.0.1", "127.0.0.2")]

    with ScriptedEndpoint(tls=server_tls("issued-expired")) as old:
        none, *_ = posted(old, b"1", host="localhost", ca_file=AUTHORITY, resolve=both)
        assert none.reason == (
            f"TLS with 127.0.0.1:{old.port}: certificate has expired; 127.0.0.2:{old.port}: connection refused"
        )
        with ScriptedEndpoint(tls=server_tls("issued-local"), address="127.0.0.2", port=old.port) as new:
            assert posted(new, b"1", host="localhost", ca_file=AUTHORITY, resolve=both) == [ANSWERED]
    assert not old.requests
