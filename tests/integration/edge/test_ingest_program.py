"""`enrich ingest run`: it takes events into topics, what it says of itself is so, and it ends without a lost answer."""

import gzip
import http.client
import json
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from edge_service.ingest.processes.planning import Address, reserved
from enrich.base.errors import ConfigError
from enrich.config import Ingest
from tests.support import dashboard
from tests.support.commands import enrich, lines
from tests.support.edge.ingesting import running, sent, started, write_config
from tests.support.processes import is_running, kill
from tests.support.waiting import GUARD_S, wait_until

PEM = Path(__file__).parent / "pem"
FREE = "listen: '127.0.0.1:0'"
TOKEN = "a-token-that-nobody-else-has"  # noqa: S105 - of this test


@pytest.fixture
def config(stack, tmp_path):
    def write(sections):
        return write_config(tmp_path / "pipeline.yaml", stack.bootstrap_servers, sections)

    return write


def event(number):
    return json.dumps({"id": number})


def ids(cluster, topic):
    return sorted(json.loads(message.value())["id"] for message in cluster.messages(topic))


def test_entries_on_one_address_are_told_apart_by_their_paths(config, cluster, new_topic):
    plays, ads = new_topic(partitions=2), new_topic()
    path = config(
        f"ingest:\n  plays: {{{FREE}, path: /v1/plays, topic: {plays}, format: json, tokens: ['{TOKEN}']}}\n"
        f"  ads: {{{FREE}, path: /v1/ads, topic: {ads}, format: json, key: id}}\n"
    )
    with running(path) as ingest:
        assert sent(ingest.url("plays"), event(1), token=TOKEN) == 200
        assert sent(ingest.url("ads"), f"[{event(2)}, {event(3)}]") == 200
        assert sent(ingest.url("plays"), event(4)) == 401
        assert sent(ingest.url("ads") + "/", event(5)) == 404
        assert (ids(cluster, plays), ids(cluster, ads)) == ([1], [2, 3])
        wait_until(lambda: ingest.entry("ads")["counters"]["events"] == 2, what="the figures")
        assert ingest.entry("plays")["details"]["answers"] == {"200": 1, "401": 1}
        assert ingest.metric("enrich_ingest_requests_total", ingest="plays", status="401") == 1
        assert ingest.metric("enrich_ingest_events_total", ingest="ads") == 2
        assert ingest.metric("enrich_ingest_acknowledgement_seconds_count", ingest="ads") == 1
        assert ingest.metric("enrich_ingest_held_bytes", ingest="ads") == 0
        assert len(ingest.status()["processes"]) == 1, "one process needs no parent"
        assert ingest.processes() == [ingest.process.pid]


def test_the_first_check_that_fails_decides_the_status(config, cluster, new_topic):
    topic = new_topic()
    path = config(
        f"ingest:\n  plays: {{{FREE}, path: /p, topic: {topic}, format: json, key: id, tokens: ['{TOKEN}'], "
        "max_body: 1KiB, max_inflated: 2KiB, max_events: 3}\n"
    )
    # Each request has all that is wrong with the next ones too.
    everything: dict[str, Any] = {"body": b"\xff" * 1025, "kind": "text/html", "content_encoding": "compress"}
    with running(path) as ingest:
        url = ingest.url("plays")
        assert sent(f"{url}x", **everything, method="PUT") == 404
        assert sent(url, **everything, method="PUT") == 405
        assert sent(url, **everything) == 401
        assert sent(url, **everything, token=TOKEN) == 413
        everything["body"] = everything["body"][:1024]
        assert sent(url, **everything, token=TOKEN) == 415
        everything["kind"] = "application/json"
        assert sent(url, **everything, token=TOKEN) == 415
        del everything["content_encoding"]
        assert sent(url, **everything, token=TOKEN) == 400
        assert sent(url, "[{}, {}, {}, {}]", token=TOKEN) == 413
        assert sent(url, '[{}, {"id": 1}, 2]', token=TOKEN) == 422
        assert sent(url, event(1), token=TOKEN) == 200
    assert ids(cluster, topic) == [1]


@pytest.mark.parametrize(
    ("entry", "what", "where"),
    [
        ("topic: no.such.topic", "the topic no.such.topic does not exist", "ingest.plays.topic"),
        ("topic: {topic}, invalid: dlq, dlq: no.such.dlq", "the topic no.such.dlq does not exist", "ingest.plays.dlq"),
        ("topic: {topic}, listen: '127.0.0.1:{taken}'", "cannot listen on 127.0.0.1:{taken}", "ingest.plays.listen"),
        (
            "topic: {topic}, tls: {{cert_file: {tmp}/none.pem, key_file: {tmp}/none.key}}",
            "the certificate cannot be used: No such file",
            "{tmp}/none.pem",
        ),
        (
            "topic: {topic}, tls: {{cert_file: {tmp}/first.pem, key_file: {tmp}/second.key}}",
            "the key is not that of the certificate",
            "{tmp}/first.pem",
        ),
        ("topic: {topic}, processes: 2, invalid: dlq, dlq: no.such.dlq", "no.such.dlq does not exist", "ingest.plays"),
        ("topic: {compacted}", "is compacted: it takes no event without a key", "ingest.plays.topic"),
    ],
    ids=["topic", "dlq", "port", "no certificate", "another key", "of a process below", "no keys"],
)
def test_what_is_wrong_at_the_start_ends_it_with_what_where_and_what_to_do(
    config, new_topic, tmp_path, entry, what, where
):
    shutil.copytree(PEM, tmp_path, dirs_exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        topics = {"topic": new_topic(), "compacted": new_topic(cleanup_policy="compact")}
        words = {**topics, "taken": taken.getsockname()[1], "tmp": tmp_path}
        listen = "" if "listen" in entry else f"{FREE}, "
        path = config(f"ingest:\n  plays: {{{listen}path: /p, format: json, {entry.format(**words)}}}\n")
        command = [sys.executable, "-m", "edge_service", "ingest", "-c", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD_S, check=False)
    assert done.returncode == 2, done.stderr
    told = done.stderr
    assert f"error: {what.format(**words)}" in told or what.format(**words) in told
    assert where.format(**words) in told.partition("where:")[2]
    assert "next:" in told
    assert "Traceback" not in told


def test_without_brokers_it_keeps_running_and_says_so_and_nothing_is_acknowledged(tmp_path):
    path = write_config(
        tmp_path / "pipeline.yaml",
        "127.0.0.1:1",
        f"ingest:\n  plays: {{{FREE}, path: /p, topic: plays, format: json, deadline: 500ms}}\n",
    )
    with started(path) as ingest:
        wait_until(lambda: "no broker" in ingest.not_ready().get("plays", ""), what="the reason")
        assert ingest.ask("/healthz")[0] == 200
        answer = sent(ingest.url("plays"), event(1))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        wait_until(lambda: ingest.entry("plays")["counters"]["unavailable"] == 1, what="the count")
        assert ingest.stop() == 0


def test_what_bodies_inflate_to_is_held_within_the_bound_and_given_back(tmp_path):
    path = write_config(
        tmp_path / "pipeline.yaml",
        "127.0.0.1:1",
        f"ingest:\n  raw: {{{FREE}, path: /p, topic: raw, format: bytes, deadline: 2s, "
        "max_body: 100KiB, in_flight: 1MiB}\n",
    )
    body = gzip.compress(bytes(400 << 10))
    with started(path) as ingest, ThreadPoolExecutor(8) as pool:
        wait_until(lambda: "no broker" in ingest.not_ready().get("raw", ""), what="its start")
        url = ingest.url("raw")
        answers = [pool.submit(sent, url, body, "text/plain", content_encoding="gzip") for _ in range(8)]
        statuses = [answer.result().status for answer in answers]
        assert set(statuses) == {503, 429}
        assert statuses.count(503) == 2, "as many as fit"
        wait_until(lambda: ingest.entry("raw")["details"]["answers"] == {"429": 6, "503": 2}, what="the figures")
        assert ingest.entry("raw")["details"]["held_bytes"] == 0


def test_brokers_that_come_back_are_used_again_without_a_restart(config, cluster, new_topic):
    topic = new_topic()
    path = config(f"ingest:\n  plays: {{{FREE}, path: /p, topic: {topic}, format: json, deadline: 1s}}\n")
    with running(path) as ingest:
        url = ingest.url("plays")
        with cluster.brokers_away():
            assert sent(url, event(1)) == 503
            wait_until(ingest.not_ready, what="the end of readiness")
        ingest.until_ready()
        # A broker that has just come back may need more than the second of the deadline: who is refused sends again.
        wait_until(lambda: sent(url, event(2)) == 200, what="an acknowledged event")
        assert 2 in ids(cluster, topic)


@pytest.mark.parametrize("processes", [1, 2])
def test_one_that_is_stopped_is_not_ready_first_then_answers_what_is_under_way_and_takes_no_more(
    config, cluster, new_topic, processes
):
    topic = new_topic()
    path = config(
        f"ingest:\n  plays: {{{FREE}, path: /p, topic: {topic}, format: json, processes: {processes}, "
        "body_deadline: 10s}\n"
    )
    with running(path) as ingest:
        address = urlsplit(ingest.url("plays"))
        page = ingest.page
        with closing(socket.create_connection((address.hostname, address.port), timeout=GUARD_S)) as half:
            body = event(1).encode()
            head = (
                f"POST /p HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            )
            half.sendall(head.encode() + body[:3])
            wait_until(lambda: ingest.entry("plays")["details"]["held_bytes"] == 3, what="half a request")
            ingest.process.send_signal(signal.SIGTERM)
            wait_until(ingest.not_ready, what="the end of readiness")
            assert sent(ingest.url("plays"), event(2)) == 200, "who has not noticed yet is served"
            wait_until(lambda: _is_refused(address), what="the end of the listener")
            half.sendall(body[3:])
            answer = http.client.HTTPResponse(half)
            answer.begin()
            assert (answer.status, answer.getheader("connection")) == (200, "close")
        assert ingest.process.wait(GUARD_S) == 0, ingest.said()
        wait_until(lambda: _is_refused(urlsplit(f"http://{page}")), what="the end of the page")
    assert ids(cluster, topic) == [1, 2]


def _is_refused(address):
    try:
        socket.create_connection((address.hostname, address.port), timeout=GUARD_S).close()
    except ConnectionError:
        return True
    return False


def test_a_process_that_dies_is_started_again_and_the_others_serve_meanwhile(config, cluster, new_topic):
    topic = new_topic()
    path = config(f"ingest:\n  plays: {{{FREE}, path: /p, topic: {topic}, format: json, processes: 3}}\n")
    with running(path) as ingest:
        wait_until(lambda: len(ingest.processes()) == 3, what="three processes")
        url, first = ingest.url("plays"), ingest.processes()
        acknowledged = [number for number in range(20) if sent(url, event(number)) == 200]
        wait_until(lambda: ingest.entry("plays")["counters"]["events"] == 20, what="the sum of the figures")
        kill(first[0])
        wait_until(lambda: first[0] not in ingest.processes(), what="its burial")
        assert ingest.not_ready() == {}
        acknowledged += [number for number in range(20, 40) if sent(url, event(number)) == 200]
        wait_until(lambda: len(ingest.processes()) == 3, what="another process")
        assert set(first[1:]) < set(ingest.processes())
        acknowledged += [number for number in range(40, 60) if sent(url, event(number)) == 200]
        assert ids(cluster, topic) == acknowledged == list(range(60))
        wait_until(lambda: ingest.entry("plays")["counters"]["events"] == 60, what="figures that keep what it had done")
        assert ingest.metric("enrich_ingest_process_restarts_total") == 1
        assert "was killed by SIGKILL" in ingest.said()


def test_the_processes_end_with_a_parent_that_is_killed(config, new_topic):
    path = config(f"ingest:\n  plays: {{{FREE}, path: /p, topic: {new_topic()}, format: json, processes: 2}}\n")
    with running(path) as ingest:
        wait_until(lambda: len(ingest.processes()) == 2, what="two processes")
        below = ingest.processes()
        kill(ingest.process.pid)
        wait_until(lambda: not any(is_running(pid) for pid in below), what="their end")


def test_certificates_are_renewed_without_a_restart(config, cluster, new_topic, tmp_path):
    def put(name):
        for kind in ("pem", "key"):
            (tmp_path / f"new.{kind}").write_bytes((PEM / f"{name}.{kind}").read_bytes())
            (tmp_path / f"new.{kind}").replace(tmp_path / f"server.{kind}")

    def shows(name):
        context = ssl.create_default_context(cafile=PEM / f"{name}.pem")
        try:
            return sent(ingest.url("plays"), event(1), context=context).status == 200
        except ssl.SSLCertVerificationError:
            return False

    put("first")
    tls = f"tls: {{cert_file: {tmp_path}/server.pem, key_file: {tmp_path}/server.key}}"
    path = config(f"ingest:\n  plays: {{{FREE}, path: /p, topic: {new_topic()}, format: json, {tls}}}\n")
    with running(path) as ingest:
        assert ingest.url("plays").startswith("https://")
        assert shows("first")
        assert not shows("second")
        put("second")
        wait_until(lambda: shows("second"), what="the renewed certificate")
        (tmp_path / "server.pem").unlink()
        assert shows("second"), "it goes on with what it has"
        assert ingest.stop() == 0
        assert ingest.said().count("a renewed certificate") == 1


def test_a_second_one_does_not_share_the_port_of_the_first(config, new_topic, tmp_path, stack):
    entry = f"path: /p, topic: {new_topic()}, format: json"
    with running(config(f"ingest:\n  plays: {{{FREE}, {entry}}}\n")) as ingest:
        port = urlsplit(ingest.url("plays")).port
        second = write_config(
            tmp_path / "second.yaml",
            stack.bootstrap_servers,
            f"ingest:\n  plays: {{listen: '127.0.0.1:{port}', {entry}}}\n",
        )
        with started(second) as other:
            assert other.process.wait(GUARD_S) == 2
            assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in other.said()


def test_one_that_starts_keeps_the_port_before_it_listens_and_takes_one_that_was_just_given_up():
    entries = {"plays": Ingest.model_validate({"path": "/p", "topic": "t", "format": "json", "dlq": "d"})}
    with reserved([Address("127.0.0.1:0", entries)]) as ports:
        again = [Address(f"127.0.0.1:{ports['127.0.0.1:0']}", entries)]
        with pytest.raises(ConfigError, match="Address already in use"), reserved(again):
            pass
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            # The server's side closes first: the kernel remembers the connection for a minute.
            other.accept()[0].close()
            assert client.recv(1) == b""
    with reserved([Address(f"127.0.0.1:{port}", entries)]) as ports:
        assert set(ports.values()) == {port}


def test_a_token_is_in_no_log_no_status_no_metric_no_description_and_no_list_of_processes(config, new_topic):
    path = config(
        f"ingest:\n  plays: {{{FREE}, path: /p, topic: {new_topic()}, format: json, processes: 2, tokens: ['{TOKEN}']}}"
    )
    with running(path) as ingest:
        url = ingest.url("plays")
        for token in (TOKEN, f"{TOKEN}x"):
            sent(url, "{", token=token)
            sent(url, event(1), token=token)
        shown = [sent(url.replace("/p", "/openapi.json"), "", method="GET").body]
        shown += [ingest.ask(page)[1].decode() for page in ("/status", "/metrics", "/readyz")]
        wait_until(
            lambda: dashboard.shown("ingest") <= dashboard.exposed(ingest.ask("/metrics")[1].decode()),
            what="the figures of all processes",
        )
        for pid in [ingest.process.pid, *ingest.processes()]:
            shown += [Path(f"/proc/{pid}/{file}").read_text() for file in ("cmdline", "environ")]
        assert ingest.stop() == 0
        assert [text for text in [*shown, ingest.said()] if TOKEN in str(text)] == []


def test_status_shows_the_entries_of_the_program_on_this_host(config, new_topic, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    path = config(f"ingest:\n  plays: {{{FREE}, path: /p, topic: {new_topic()}, format: json}}\n")
    path.write_text(path.read_text().replace("ingest: '127.0.0.1:0'", f"ingest: '127.0.0.1:{port}'"))
    assert enrich("ingest", "status", "-c", path).returncode == 3
    with running(path) as ingest:
        sent(ingest.url("plays"), event(1))
        wait_until(lambda: ingest.entry("plays")["counters"]["events"] == 1, what="the figures")
        done = enrich("ingest", "status", "-c", path, "--json")
        assert [(line["name"], line["state"], line["counters"]["events"]) for line in lines(done)] == [
            ("plays", "running", 1)
        ]
        assert "1 events" in enrich("ingest", "status", "-c", path).stdout
