"""`enrich doctor` finds what would keep ingest from starting, or make it unsafe, before it is started."""

import socket
import ssl
import subprocess
from pathlib import Path

import pytest

from enrich.admin.doctor import Level
from enrich.admin.doctor.senders import of_senders
from enrich.config import load
from enrich.service.certificates import ends_at
from tests.support.commands import enrich, lines
from tests.support.edge.ingesting import running, write_config
from tests.support.links.without_ipv6 import SocketWithoutIPv6

PEM = Path(__file__).parent / "pem"
STRONG = "0f4c9a1e77d25b38c6aa90431d"
DAY_S = 86_400


def verdicts(path, check, now_s=None):
    """Level and text of what one check says."""
    found = [verdict for verdict in of_senders(load(path), 5.0, now_s) if verdict.check == check]
    assert all(verdict.next_step for verdict in found if verdict.level is not Level.good)
    return [(verdict.level.value, verdict.what) for verdict in found]


@pytest.fixture
def config(tmp_path):
    def write(entry, servers="127.0.0.1:1"):
        return write_config(tmp_path / "pipeline.yaml", servers, f"ingest:\n  plays: {{path: /p, {entry}}}\n")

    return write


def with_certificate(certificate, key):
    return f"topic: t, format: json, tls: {{cert_file: {PEM}/{certificate}.pem, key_file: {PEM}/{key}.key}}"


def test_a_certificate_is_good_until_two_weeks_before_its_end(config):
    path = config(with_certificate("first", "first"))
    end = ends_at(PEM / "first.pem", PEM / "first.key")
    assert end == ssl.cert_time_to_seconds(ssl._ssl._test_decode_cert(str(PEM / "first.pem"))["notAfter"])  # type: ignore[attr-defined] # OpenSSL's own reading
    levels = {left: verdicts(path, "certificates", end - left * DAY_S)[0][0] for left in (15, 14.1, 13.9, 0.1, -0.1)}
    assert levels == {15: "good", 14.1: "good", 13.9: "warning", 0.1: "warning", -0.1: "bad"}


@pytest.mark.parametrize(
    ("certificate", "key", "reason"),
    [
        ("first", "second", "the key is not that of the certificate"),
        ("none", "first", "No such file"),
        ("issued-local", "locked", "the key has a password"),
        ("issued-expired", "issued", "has ended"),
    ],
)
def test_a_pair_that_cannot_be_used_is_bad(config, certificate, key, reason):
    ((level, what),) = verdicts(config(with_certificate(certificate, key)), "certificates")
    assert (level, reason in what) == ("bad", True), what


def test_a_key_that_no_sender_can_agree_with_is_bad(tmp_path, config):
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp256k1", "-nodes"]
    names = ["-subj", "/CN=127.0.0.1", "-keyout", tmp_path / "curve.key", "-out", tmp_path / "curve.pem"]
    subprocess.run([*command, *names], check=True, capture_output=True)
    pair = f"{{cert_file: {tmp_path}/curve.pem, key_file: {tmp_path}/curve.key}}"
    ((level, what),) = verdicts(config(f"topic: t, format: json, tls: {pair}"), "certificates")
    assert (level, "no shared cipher" in what) == ("bad", True), what


def test_an_address_of_a_family_that_this_host_does_not_have_is_bad(config, monkeypatch):
    monkeypatch.setattr(socket, "socket", SocketWithoutIPv6)
    ((level, what),) = verdicts(config("listen: '[::1]:8080', topic: t, format: json"), "ports")
    assert (level, what.endswith("Address family not supported by protocol")) == ("bad", True), what


def test_tokens_that_are_weak_or_cannot_be_sent_are_named_by_number_alone(config):
    path = config(f"topic: t, format: json, tokens: ['{STRONG}', short, 'with a space in it {STRONG}', '{'ab' * 20}']")
    found = verdicts(path, "tokens")
    assert [(level, what.partition(": ")[2].split(" of ")[0]) for level, what in found] == [
        ("warning", "token 2"),
        ("bad", "token 3"),
        ("warning", "token 4"),
    ]
    assert [what for _, what in found if "short, or" not in what and "spaces" not in what] == []
    assert STRONG not in str(found)
    assert verdicts(config(f"topic: t, format: json, tokens: ['{STRONG}']"), "tokens")[0][0] == "good"


def test_an_entry_that_the_network_reaches_should_ask_for_tokens_over_https(config):
    entry = "topic: t, format: json, listen: '0.0.0.0:8080'"
    assert [level for level, _ in verdicts(config(entry), "tokens")] == ["warning"]
    assert [level for level, _ in verdicts(config(f"{entry}, tokens: ['{STRONG}']"), "tokens")] == ["good", "warning"]
    assert verdicts(config("topic: t, format: json"), "tokens") == []


def test_a_port_is_free_or_held_by_our_own_ingest_or_bad(config, stack, new_topic):
    entry = f"format: json, topic: {new_topic()}"
    path = config(f"listen: '127.0.0.1:0', {entry}", stack.bootstrap_servers)
    with running(path) as ingest:
        address = ingest.url("plays").removeprefix("http://").removesuffix("/p")
        text = config(f"listen: '{address}', {entry}", stack.bootstrap_servers).read_text()
        path.write_text(text.replace("127.0.0.1:0", ingest.page))
        assert verdicts(path, "ports") == [("good", f"{address} is held by this pipeline's ingest, which runs")]
        done = enrich("doctor", "-c", path, "--json")
        assert [line["level"] for line in lines(done) if line["check"] == "ports"] == ["good"]
        path.write_text(text.replace("name: test", "name: other").replace("127.0.0.1:0", ingest.page))
        assert verdicts(path, "ports") == [("bad", f"ingest cannot listen on {address}: Address already in use")]
    assert verdicts(path, "ports") == [("good", f"{address} is free for ingest")]
