"""The receiver of `enrich dev sink` counts exactly what came, and misbehaves exactly as told. Over real sockets."""

import base64
import gzip
import http.client
import json
import re
import signal
import socket
import ssl
import subprocess
import time
from contextlib import closing

import pytest

from enrich.service.signatures import Signer
from tests.support.commands import enrich, enrich_process
from tests.support.edge.sinks import running_sink
from tests.support.waiting import GUARD_S

SECRET, ANOTHER = ("whsec_" + base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))


@pytest.fixture(scope="module")
def shared():
    with running_sink("--seed", 7) as sink:
        yield sink


@pytest.fixture
def sink(shared):
    shared.be_well()
    shared.forget()
    return shared


def post(sink, body="{}", path="/a", **headers):
    """Status, headers and body of the answer."""
    kind = {"content-type": headers.pop("kind", "application/json")}
    with closing(sink.connect()) as connection:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", path, body, {**kind, **given})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def test_events_are_counted_whatever_way_they_come(sink):
    assert post(sink, '[{"a": 1}, {"a": [2, 3]}, "[,]"]')[0] == 200
    assert post(sink, ' {"a": 1}')[0] == 200
    assert post(sink, '{"a": 1}\n{"a": 2}\n', kind="application/x-ndjson")[0] == 200
    assert post(sink, gzip.compress(b"[1, 2, 3, 4]"), content_encoding="gzip")[0] == 200
    assert post(sink, b"\xff\0", kind="application/octet-stream")[0] == 200
    assert post(sink, "")[0] == 200
    seen = sink.seen("/a")
    assert (seen["requests"], seen["events"], seen["taken"]) == (6, 3 + 1 + 2 + 4 + 1, 11)


def test_what_is_not_what_its_headers_say_is_refused_and_counted(sink):
    assert post(sink, "[1, 2")[0] == 400
    assert post(sink, "1\n{", kind="application/x-ndjson")[0] == 400
    assert post(sink, b"no gzip", content_encoding="gzip")[0] == 400
    assert post(sink, gzip.compress(b"[1]")[:-3], content_encoding="gzip")[0] == 400
    assert post(sink, gzip.compress(bytes(80 << 20)), content_encoding="gzip")[0] == 400
    assert post(sink, "[1]", enrich_origins="t/0/9-3")[0] == 400
    assert post(sink, "[1]", enrich_origins="t")[0] == 400
    assert post(sink, "[" * 100_000)[0] == 400
    for offset in (str(1 << 63), "9" * 4_300):  # no topic has so many, and their sum could not be shown
        assert post(sink, "[1]", enrich_origins=f"t/0/0-{offset}")[0] == 400
    assert sink.seen("/a") == {**sink.seen("/a"), "unreadable": 10, "taken": 0, "answers": {"400": 10}}


def test_an_offer_of_another_protocol_is_ignored(sink):
    """As Java's client makes one with each request."""
    offer = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AAEAAEAAAAIAAAAB"}
    with closing(sink.connect()) as connection:
        for _ in range(2):
            connection.request("POST", "/a", "[1, 2]", {"content-type": "application/json", **offer})
            assert connection.getresponse().read() == b""
        connection.request("GET", "/-/seen", headers=offer)
        assert json.loads(connection.getresponse().read())["taken"] == 4
        connection.sock.sendall(b"CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n\r\n")
        assert connection.sock.recv(12) == b"HTTP/1.1 400"


def test_duplicates_are_found_by_their_origins(sink):
    post(sink, "[1, 2, 3]", enrich_origins="t/0/5-7", webhook_id="t/0/5")
    post(sink, "[1, 2, 3]", enrich_origins="t/0/1-2,t.x/11/0", webhook_id="t/0/1")
    sink.behave({"/a": {"status": 503, "times": 1}})
    assert post(sink, "[1, 2]", enrich_origins="t/0/7-8", webhook_id="t/0/7")[0] == 503
    assert sink.origins("/a") == {("t", 0, n) for n in (1, 2, 5, 6, 7)} | {("t.x", 11, 0)}
    assert post(sink, "[1, 2]", enrich_origins="t/0/7-8", webhook_id="t/0/7")[0] == 200
    post(sink, "[1, 2]", enrich_origins="t/0/7-8", path="/b")
    seen = sink.seen("/a")
    assert (seen["events"], seen["taken"], seen["duplicates"], seen["repeated"]) == (10, 8, 1, 1)
    assert sink.origins("/a") == {("t", 0, n) for n in (1, 2, 5, 6, 7, 8)} | {("t.x", 11, 0)}
    assert sink.origins("/b") == {("t", 0, 7), ("t", 0, 8)}
    assert sink.seen("/b")["duplicates"] == 0


def test_only_what_is_signed_by_a_secret_is_taken(tmp_path):
    out = tmp_path / "out.jsonl"
    with running_sink("--secret", SECRET, "--secret", ANOTHER, "--out", out) as sink:
        now = int(time.time())
        signed = Signer([ANOTHER], "").headers("t/0/1", now, b"[1]")
        late = Signer([SECRET], "").headers("t/0/2", now - 3_600, b"[1]")
        assert post(sink, "[1]", **signed)[0] == 200
        assert post(sink, "[2]", **signed)[0] == 401
        assert post(sink, "[1]", **late)[0] == 401
        assert post(sink, "[1]")[0] == 401
        assert post(sink, "[1]", **{**signed, "webhook-timestamp": "9" * 400})[0] == 401
        assert sink.seen("/a") == {**sink.seen("/a"), "taken": 1, "unsigned": 4}
        sink.process.send_signal(signal.SIGTERM)
        told, _ = sink.process.communicate(timeout=GUARD_S)
        assert sink.process.returncode == 0
        last = told.splitlines()[-1]
        assert json.loads(last)["answers"] == {"200": 1, "401": 4}
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["id"], row["taken"], row["body"]) for row in rows][:2] == [
        ("t/0/1", True, "[1]"),
        ("t/0/1", False, "[2]"),
    ]
    assert all(now - 1 <= row["received_ms"] / 1000 <= time.time() for row in rows)


def test_each_path_behaves_in_its_own_way(sink):
    sink.behave({"/dead": {"status": 500}, "*": {"status": 429, "headers": {"retry-after": "3"}}, "/well": []})
    assert post(sink, path="/dead")[0] == 500
    assert post(sink, path="/well")[0] == 200
    status, headers, _ = post(sink, path="/other")
    assert (status, headers["retry-after"]) == (429, "3")
    sink.behave({"/dead": []})
    assert post(sink, path="/dead")[0] == 200
    assert post(sink, path="/other")[0] == 429


def test_rules_are_laid_over_each_other(sink):
    poison = {"contains": "poison", "status": 422, "body": "bad"}
    sink.behave(
        {
            "/a": [
                {"status": 503, "times": 2},
                poison,
                {"status": 302, "contains": "moved", "headers": {"location": "/b"}},
            ]
        }
    )
    assert [post(sink, '"x"')[0] for _ in range(3)] == [503, 503, 200]
    assert post(sink, gzip.compress(b'["poison"]'), content_encoding="gzip")[::2] == (422, b"bad")
    status, headers, _ = post(sink, '"moved"')
    assert (status, headers["location"]) == (302, "/b")


def test_a_share_of_the_requests_is_failed(sink):
    sink.behave({"/a": {"status": 503, "share": 0.3}})
    with closing(sink.connect()) as connection:
        found = []
        for _ in range(1_000):
            connection.request("POST", "/a", "{}", {"content-type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            found.append(answer.status)
    assert set(found) == {200, 503}
    assert 200 < found.count(503) < 400
    assert sink.seen("/a")["answers"] == {"200": found.count(200), "503": found.count(503)}


@pytest.mark.parametrize(
    ("ending", "raised"),
    [
        ("none", http.client.RemoteDisconnected),
        ("reset", ConnectionResetError),
        ("truncated", http.client.IncompleteRead),
        ("garbage", http.client.BadStatusLine),
    ],
)
def test_an_answer_is_lost_though_the_events_are_taken(sink, ending, raised):
    sink.behave({"/a": {"answer": ending}})
    with pytest.raises(raised):
        post(sink, "[1]", enrich_origins="t/0/1")
    assert sink.seen("/a")["answers"] == {ending: 1}
    assert sink.origins("/a") == {("t", 0, 1)}


def test_an_answer_comes_late_or_never_and_others_do_not_wait(sink):
    sink.behave({"/slow": {"delay": "500ms"}, "/hung": {"answer": "hang"}, "/endless": {"answer": "endless"}})
    with closing(sink.connect()) as hung, closing(sink.connect()) as slow, closing(sink.connect()) as endless:
        for connection, path in ((hung, "/hung"), (slow, "/slow"), (endless, "/endless")):
            connection.request("POST", path, "{}")
        began = time.monotonic()
        assert post(sink)[0] == 200
        assert slow.getresponse().status == 200
        assert time.monotonic() - began >= 0.4
        flood = endless.getresponse()
        assert len(flood.read(10 << 20)) == 10 << 20
        hung.sock.settimeout(0.1)
        with pytest.raises(TimeoutError):
            hung.sock.recv(1)
    assert post(sink)[0] == 200


def test_requests_in_line_are_answered_in_their_order(sink):
    sink.behave({"/slow": {"delay": "50ms", "status": 202}})
    one = b"POST /%b HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}"
    with closing(sink.connect()) as connection:
        connection.connect()
        connection.sock.sendall(one % b"slow" + one % b"a" * 40 + one % b"slow")
        file = connection.sock.makefile("rb")
        statuses: list[int] = []
        while len(statuses) < 42:
            line = file.readline()
            assert line
            if line.startswith(b"HTTP/1.1"):
                statuses.append(int(line.split()[1]))
        assert statuses == [202, *[200] * 40, 202]


def test_what_waits_behind_a_large_answer_is_not_answered_without_end(sink):
    sink.behave({"/large": {"body": "x" * (16 << 20)}, "/hung": {"answer": "hang"}})
    one = b"POST /%b HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}"
    with closing(sink.connect()) as connection:
        connection.connect()
        connection.sock.sendall(one % b"large" + one % b"hung")
        file = connection.sock.makefile("rb")
        while file.readline() != b"\r\n":
            pass
        assert len(file.read(16 << 20)) == 16 << 20
        connection.sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            file.read(1)


@pytest.mark.parametrize(
    "data",
    [
        b"no http\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + b"x: y\r\n" * 200_000,
        b"POST / HTTP/1.1\r\nhost: h\r\nx: " + b"y" * 100_000,
        b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 99999999\r\n\r\n" + bytes(40 << 20),
        b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
    ],
)
def test_hostile_senders_cost_their_connection_only(sink, data):
    with closing(sink.connect()) as connection:
        connection.connect()
        try:
            connection.sock.sendall(data)
            answer = connection.sock.recv(12)
        except ConnectionError:  # it was closed while the rest was sent
            answer = b"HTTP/1.1 4"
        assert answer.startswith(b"HTTP/1.1 4")
    assert post(sink)[0] == 200


def test_a_wrong_behaviour_is_refused_and_changes_nothing(sink):
    sink.behave({"/a": {"status": 503}})
    for wrong in (
        "{",
        '{"/a": {"stats": 1}}',
        '{"/a": {"status": 600}}',
        '{"/a": {"delay": "5"}}',
        '{"/a": {"share": 2}}',
    ):
        with closing(sink.connect()) as connection:
            connection.request("PUT", "/-/behaviour", wrong)
            answer = connection.getresponse()
            assert (answer.status, "not a behaviour" in json.loads(answer.read())["error"]) == (400, True)
    assert post(sink)[0] == 503


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--listen", "8900"], "not an address to listen on: 8900"),
        (["--listen", "127.0.0.1:99999"], "not an address"),
        (["--listen", "my..host:8900"], "cannot listen on my..host:8900"),
        (["--secret", "whsec_short"], "a signing secret is whsec_"),
        (["--fail", "abc"], "an example: --fail 503:0.1"),
        (["--fail", "503:2"], "an example: --fail 503:0.1"),
        (["--fail", "999"], "--fail 999: expected a status from 100 to 599"),
        (["--slow", "3"], "an example: --slow 200ms:0.5"),
        (["--retry-after", "soon"], "expected a duration"),
        (["--behaviour", "{"], "not a behaviour"),
        (["--out", "/nowhere/at/all"], "cannot write to /nowhere/at/all"),
        (["--certificate", "/nowhere.pem"], "the certificate cannot be used"),
        (["--key", "/nowhere.pem"], "--key and --clients need --certificate"),
    ],
)
def test_wrong_options_end_with_what_to_do(options, told):
    done = enrich("dev", "sink", *options)
    assert (done.returncode, told in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_told():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = enrich("dev", "sink", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert (done.returncode, "choose another port" in done.stderr) == (2, True)


@pytest.mark.parametrize("json_lines", [["--json"], []], ids=["machines", "people"])
def test_a_full_disk_under_out_is_told(json_lines):
    with enrich_process("dev", "sink", "--listen", "127.0.0.1:0", "--out", "/dev/full", *json_lines) as process:
        (port,) = re.findall(r"http://127\.0\.0\.1:([0-9]+)", first_line(process))[:1]
        with closing(http.client.HTTPConnection("127.0.0.1", int(port), timeout=GUARD_S)) as connection:
            connection.request("POST", "/a", "{}")
            connection.getresponse().read()
        _, errors = process.communicate(timeout=GUARD_S)
    assert process.returncode == 2, errors
    assert "cannot write what came: No space left on device" in errors and "--out /dev/full" in errors
    assert "Traceback" not in errors


def test_people_read_one_line_and_ctrl_c_ends_it():
    with enrich_process("dev", "sink", "--listen", "127.0.0.1:0", "--fail", "503:0.5", "--slow", "1ms") as process:
        said = first_line(process)
        assert said.startswith("listening on http://127.0.0.1:")
        port = int(said.split(";")[0].rpartition(":")[2])
        for _ in range(20):
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD_S)) as connection:
                connection.request("POST", "/a", "[1]", {"content-type": "application/json"})
                connection.getresponse().read()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=GUARD_S)
    assert (process.returncode, errors) == (0, "")
    assert "20 requests" in out.splitlines()[-1]
    assert "x 503" in out.splitlines()[-1]


def test_it_speaks_https_and_asks_senders_for_their_certificate(tmp_path):
    pem = tmp_path / "pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", pem, "-out", tmp_path / "cert"]
    subprocess.run([*command, *names], check=True, capture_output=True)
    pem.write_text(pem.read_text() + (tmp_path / "cert").read_text())
    with running_sink("--certificate", pem, "--clients", tmp_path / "cert") as sink:
        port = int(sink.url.rpartition(":")[2])
        assert sink.url.startswith("https://")
        trusting = ssl.create_default_context(cafile=str(tmp_path / "cert"))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask(port, trusting)
        trusting.load_cert_chain(pem)
        assert ask(port, trusting) == 200


def first_line(process):
    return process.stdout.readline()


def ask(port, context):
    with closing(http.client.HTTPSConnection("127.0.0.1", port, timeout=GUARD_S, context=context)) as connection:
        connection.request("POST", "/a", "{}")
        return connection.getresponse().status
