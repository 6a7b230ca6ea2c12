"""`enrich doctor` finds what is wrong with an endpoint before the first event does, and sends it nothing."""

import select
import socket
import struct
from typing import Any

import pytest

from enrich.admin.doctor.endpoints import of_endpoints
from tests.support.commands import enrich, lines
from tests.support.links.names import leading
from tests.support.links.without_ipv6 import SocketWithoutIPv6
from tests.support.servers.scripted_endpoint import PEM, ScriptedEndpoint, server_tls
from tests.unit.config.helpers import load_data

AUTHORITY = str(PEM / "authority.pem")
OURS = {"cert_file": str(PEM / "issued-local.pem"), "key_file": str(PEM / "issued.key")}
CERTIFICATES = ("the certificate of 127.0.0.1", "our certificate")
FIRST_OF_2120 = 4_733_510_400.0


def found(url, now_s=None, deadline_s=30, **http: Any):
    """Level and text of what is found about a route to this endpoint."""
    route = {"topic": "plays.acme", "to": {"http": {"url": url, "allow_private": True, **http}}}
    pipeline = load_data({"name": "plays", "kafka": {"bootstrap_servers": "localhost:1"}, "expel": {"acme": route}})
    verdicts = list(of_endpoints(pipeline, deadline_s, now_s))
    assert {verdict.check for verdict in verdicts} == {"endpoints"}
    assert all(verdict.next_step for verdict in verdicts if verdict.level != "good")
    return [(str(verdict.level), verdict.what.removeprefix("route acme: ")) for verdict in verdicts]


def test_a_good_endpoint_is_good_and_gets_no_request():
    with ScriptedEndpoint() as endpoint:
        assert found(endpoint.url()) == [("good", f"127.0.0.1:{endpoint.port} takes connections")]
    with ScriptedEndpoint(tls=server_tls("issued-local", asks_for=PEM / "authority.pem")) as secure:
        here = found(secure.url(), ca_file=AUTHORITY, secret="whsec_" + "A" * 32, token="a", **OURS)  # noqa: S106 - none
        assert here == [("good", f"127.0.0.1:{secure.port} takes connections")]
    assert endpoint.requests == secure.requests == []


@pytest.mark.parametrize(
    ("certificate", "settings", "reason"),
    [
        ("issued-local", {}, "TLS with 127.0.0.1 at 127.0.0.1: unable to get local issuer certificate"),
        ("issued-expired", {"ca_file": AUTHORITY}, "TLS with 127.0.0.1 at 127.0.0.1: certificate has expired"),
        ("issued-other", {"ca_file": AUTHORITY}, "TLS with 127.0.0.1 at 127.0.0.1: ip address mismatch, certificate"),
        ("issued-local", {"ca_file": "/missing"}, "ca_file cannot be used: No such file or directory"),
    ],
)
def test_an_endpoint_that_is_not_believed_is_bad(certificate, settings, reason):
    with ScriptedEndpoint(tls=server_tls(certificate)) as endpoint:
        ((level, what),) = found(endpoint.url(), **settings)
    assert level == "bad"
    assert what.startswith(reason)


def test_an_endpoint_that_does_not_believe_us_is_bad():
    with ScriptedEndpoint(tls=server_tls("issued-local", asks_for=PEM / "authority.pem")) as endpoint:
        ((level, what),) = found(endpoint.url(), ca_file=AUTHORITY)
    assert (level, "certificate required" in what) == ("bad", True)


@pytest.mark.parametrize(
    ("days", "verdict"),
    [
        (15, []),
        (13, [("warning", "ends in 13 days")]),
        (-1, [("bad", "has ended")]),
    ],
)
def test_certificates_that_end_soon_are_told(days, verdict):
    with ScriptedEndpoint(tls=server_tls("issued-local")) as endpoint:
        told = found(endpoint.url(), now_s=FIRST_OF_2120 - days * 86_400, ca_file=AUTHORITY, **OURS)
    wanted = [(level, f"{whose} {what}") for level, what in verdict for whose in CERTIFICATES]
    assert sorted(one for one in told if one[0] != "good") == sorted(wanted)
    assert len([one for one in told if one[0] == "good"]) == (days > 0)


@pytest.mark.parametrize(
    ("url", "settings", "reason"),
    [
        ("http://127.0.0.1:1/", {}, "port 1 of 127.0.0.1 takes no connection: 127.0.0.1 (connection refused)"),
        ("http://no.such.name.invalid/", {}, "the name no.such.name.invalid was not found: "),
        ("http://127.0.0.1/", {"allow_private": False}, "127.0.0.1 leads to no public address: 127.0.0.1 is this host"),
        ("http://user:pass@127.0.0.1/", {}, "a login in the address is not sent"),
        ("http://127.0.0.1:1/", {"token": "to ken"}, "the token has characters that no header can have"),
    ],
)
def test_what_would_keep_requests_from_arriving_is_bad(url, settings, reason):
    ((level, what),) = found(url, **settings)
    assert level == "bad"
    assert what.startswith(reason)
    assert not any(secret in what for secret in ("pass@", "to ken"))


def test_an_address_of_a_family_that_this_host_does_not_have_is_silent(monkeypatch):
    with ScriptedEndpoint() as endpoint:
        both = [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", endpoint.port, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", endpoint.port)),
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
        monkeypatch.setattr(socket, "socket", SocketWithoutIPv6)
        told = found(f"http://both.example:{endpoint.port}/")
    assert [level for level, _ in told] == ["warning", "good"]
    assert "takes no connection at ::1 (address family not supported by protocol)" in told[0][1]


def test_a_wrong_certificate_at_one_of_several_addresses_is_a_warning():
    with (
        ScriptedEndpoint(tls=server_tls("issued-expired")) as old,
        ScriptedEndpoint(tls=server_tls("issued-local"), address="127.0.0.2", port=old.port),
        leading(("127.0.0.1", old.port), ("127.0.0.2", old.port)),
    ):
        told = found(old.url("localhost"), ca_file=AUTHORITY)
    assert [level for level, _ in told] == ["warning", "good"]
    assert told[0][1] == "TLS with localhost at 127.0.0.1: certificate has expired"


def test_an_endpoint_that_is_silent_is_bad_after_the_deadline():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        told = found(f"https://127.0.0.1:{port}/", deadline_s=0.3)
    assert told == [("bad", "TLS with 127.0.0.1 at 127.0.0.1: no answer in time")]


# `wrap_socket` leaves a socket that is closed already to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_endpoint_that_resets_connections_at_once_is_bad(monkeypatch):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        class ResetAtOnce(socket.socket):
            def connect(self, address):
                super().connect(address)
                there, _ = listener.accept()
                there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                there.close()
                arrived = select.poll()
                arrived.register(self, 0)
                assert arrived.poll(30_000)

        port = listener.getsockname()[1]
        monkeypatch.setattr(socket, "socket", ResetAtOnce)
        told = found(f"https://127.0.0.1:{port}/")
    assert [(level, what.partition(": ")[0]) for level, what in told] == [("bad", "TLS with 127.0.0.1 at 127.0.0.1")]


def test_an_encrypted_key_is_bad_and_nobody_is_asked_for_its_password():
    files = {"cert_file": str(PEM / "first.pem"), "key_file": str(PEM / "locked.key")}
    ((level, what),) = found("https://127.0.0.1:1/", **files)
    assert (level, what.startswith("cert_file cannot be used: the key is encrypted")) == ("bad", True)


def test_the_command_looks_at_every_route(write_config):
    route = "{{topic: t, to: {{http: {{url: 'http://127.0.0.1:{}/', allow_private: true}}}}}}"
    with ScriptedEndpoint() as endpoint:
        path = write_config(
            f"expel:\n  one: {route.format(endpoint.port)}\n  two: {route.format(1)}\n", servers="127.0.0.1:1"
        )
        done = enrich("doctor", "-c", path, "--deadline", "1", "--json")
    told = {
        verdict["what"].partition(":")[0]: verdict["level"]
        for verdict in lines(done)
        if verdict["check"] == "endpoints"
    }
    assert told == {"route one": "good", "route two": "bad"}
