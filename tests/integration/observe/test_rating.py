"""A rating of ingest and expel as they are: what is sent, what is kept, and what is refused."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from enrich.admin.cluster import Cluster as Administered
from enrich.admin.rating.arriving import Arrivals
from enrich.admin.rating.ways import way_to_rate
from enrich.config import load
from enrich.dev.servers.ports import choose
from enrich.dev.stack import Addresses
from enrich.kafka import DeliveringProducer, Topics, new_admin_client
from enrich.tally import Lags, Node, NodeKind, Report, Tally, encoded
from tests.support.commands import enrich, enrich_process, lines
from tests.support.edge.expel import Endpoint
from tests.support.edge.ingesting import running
from tests.support.kafka.topics import Cluster
from tests.support.waiting import wait_until


def test_a_chain_is_rated_and_the_rating_is_kept(stack: Addresses, tmp_path: Path) -> None:
    servers, name = str(stack.bootstrap_servers), "rated-chain"
    (port,) = choose(1, [])
    with Endpoint(lambda _: 200) as endpoint, ExitStack() as held:
        entry = {"listen": f"127.0.0.1:{port}", "path": "/v1", "topic": f"{name}.raw", "format": "json"}
        http = {"url": endpoint.url(), "allow_private": True}
        document = {
            "name": name,
            "kafka": {"bootstrap_servers": servers},
            "state_dir": str(tmp_path / "state"),
            "pages": dict.fromkeys(("ingest", "expel", "retrier"), "127.0.0.1:0"),
            "ingest": {"plays": {**entry, "event_time": "ts", "tokens": ["very secret"]}},
            "expel": {"acme": {"topic": f"{name}.raw", "to": {"http": http}}},
        }
        file = tmp_path / "rated.yaml"
        file.write_text(json.dumps(document))
        Topics(new_admin_client({"bootstrap.servers": servers})).create(f"{name}.raw", partitions=2)
        events = tmp_path / "events.jsonl"
        events.write_text('{"id": 1, "ts": 0}\n{"id": 2, "ts": "never"}\n')
        assert "nobody has rated" in enrich("rate", "show", "-c", file).stdout
        rate = ("rate", "run", "-c", file, "--events", events, "--first", "50", "--most", "100", "--step", "2s")
        nobody = enrich(*rate)
        assert nobody.returncode == 3, nobody.stderr
        assert "no event was taken" in nobody.stderr
        held.enter_context(running(file))
        command = [sys.executable, "-m", "edge_service", "expel", "-c", str(file)]
        expel = held.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        held.callback(expel.kill)
        done = enrich(*rate, "--p95", "1m", "--json")
        assert done.returncode == 0, done.stderr
        (rating,) = lines(done)
        # A machine that is busy may hold less; it has tried, and says why it stopped.
        assert [step["rate"] for step in rating["steps"]][:1] == [50]
        assert rating["route"] == "plays > acme"
        assert rating["is_bounded"] == any(step["breaks"] for step in rating["steps"])
        assert sum(endpoint.delivered.values()) >= 100
        assert "very secret" not in done.stdout + done.stderr
        assert lines(enrich("rate", "show", "-c", file, "--json")) == [rating]
        assert "plays > acme" in enrich("rate", "show", "-c", file).stdout


def test_records_that_are_no_whole_rating_are_left_out(stack: Addresses, tmp_path: Path, cluster: Cluster) -> None:
    """Anybody may write into a topic: neither the command nor the observer's page fails on it."""
    file = tmp_path / "odd.yaml"
    file.write_text(json.dumps({"name": "odd", "kafka": {"bootstrap_servers": stack.bootstrap_servers}}))
    step = {"rate": 1.0, "taken": 1.0, "left": 1.0, "p95_ms": None, "late_share": 0.0, "breaks": "nothing left"}
    whole = {
        "route": "plays > acme",
        "rating_per_s": 100,
        "is_bounded": True,
        "condition": {"p95_ms": 1_000.0, "step_s": 30.0},
        "at_ms": 1_700_000_000_000,
        "steps": [step],
    }
    odd: list[object] = [1, [], "rating"]
    odd += [{name: value for name, value in whole.items() if name != left_out} for left_out in whole]
    others: dict[str, list[object]] = {
        "rating_per_s": ["1", None, float("nan"), float("inf"), 10**400],
        "condition": [None, {}, {"p95_ms": "1"}],
        "at_ms": [None, "now", 10**18, float("inf")],
        "steps": [None, 1, ["x"], [{**step, "rate": None}], [{**step, "breaks": 1}], [{**step, "p95_ms": "1"}]],
    }
    odd += [{**whole, name: value} for name, values in others.items() for value in values]
    cluster.topics.create("odd.ratings", partitions=1)
    records = [(b"%d" % number, json.dumps(each).encode()) for number, each in enumerate([*odd, whole])]
    cluster.produce("odd.ratings", records)
    assert lines(enrich("rate", "show", "-c", file, "--json")) == [whole]
    shown = enrich("rate", "show", "-c", file)
    assert (shown.returncode, shown.stdout.count("plays > acme")) == (0, 1), shown.stderr


@pytest.mark.parametrize("ahead_s", [-3_600, 3_600])
def test_when_events_leave_does_not_go_by_the_clock_of_the_brokers(cluster: Cluster, ahead_s: int) -> None:
    """At each rate nothing would seem to leave, and the rating be 0."""
    topic, node = f"brokers-{ahead_s}.tallies", Node("p", NodeKind.expel, "acme")
    cluster.topics.create(topic, config={"message.timestamp.type": "CreateTime"})
    began_ms = time.time_ns() // 10**6
    lag = Lags.of([0] * 7, 0, 10).of_minute(0)
    report = Report(node, "a", 0, began_ms, [Tally("", 0, lag=lag)])
    with Arrivals(cluster.connection, cluster.topics, topic, node).watched() as arrivals:
        with DeliveringProducer(cluster.connection) as producer:
            producer.produce(topic, b"a", encoded(report)[0], timestamp_ms=began_ms + ahead_s * 1_000)
        wait_until(lambda: arrivals.between(0, 2**62), what="what has left")
        assert arrivals.between(began_ms, time.time_ns() // 10**6 + 1).count == 7


def test_what_cannot_be_rated_is_refused(stack: Addresses, tmp_path: Path) -> None:
    file, events = tmp_path / "unrated.yaml", tmp_path / "events.jsonl"
    events.write_text("{}\n")
    source = {"topic": "a", "format": "json", "schema": "id bigint"}
    document = {
        "name": "unrated",
        "kafka": {"bootstrap_servers": stack.bootstrap_servers},
        "stages": {
            "one": {"source": source, "sink": {"topic": "b"}},
            "two": {"source": source, "sink": {"topic": "c"}},
        },
    }
    file.write_text(json.dumps(document))
    rate = ("rate", "run", "-c", file, "--events", events)
    assert "the pipeline writes no tallies" in enrich(*rate).stderr
    file.write_text(json.dumps({**document, "tallies": True}))
    assert "several ways could be meant; there are 'one', 'two'" in enrich(*rate).stderr
    assert "no way has that in its name" in enrich(*rate, "--route", "three").stderr
    assert enrich(*rate, "--step", "soon").returncode == 2


def test_events_that_are_sent_to_a_topic_may_be_as_large_as_it_takes_them(
    stack: Addresses, tmp_path: Path, new_topic: Callable[..., str], cluster: Cluster
) -> None:
    """And it gets them all, though it takes less at once than clients send."""
    connection = {"bootstrap_servers": stack.bootstrap_servers}
    for most, events in ((3_000_000, [b"x" * 2_000_000]), (20_000, [b"x" * 1_000] * 200)):
        topic = new_topic(max_message_bytes=str(most))
        route = {"topic": topic, "to": {"http": {"url": "https://example.org"}}}
        file = tmp_path / f"{most}.yaml"
        file.write_text(json.dumps({"name": "sized", "kafka": connection, "tallies": True, "expel": {"r": route}}))
        pipeline = load(file)
        target = way_to_rate(pipeline, Administered(pipeline.kafka), None, None).new_target()
        assert target.send(events, 0) + target.close().taken == len(events)
        assert len(cluster.messages(topic)) == len(events)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_ends(stack: Addresses, tmp_path: Path, number: signal.Signals) -> None:
    (port,) = choose(1, [])
    entry = {"listen": f"127.0.0.1:{port}", "path": "/v1", "topic": "interrupted.raw", "format": "json"}
    document = {"name": "interrupted", "kafka": {"bootstrap_servers": stack.bootstrap_servers}}
    file, events = tmp_path / "interrupted.yaml", tmp_path / "events.jsonl"
    file.write_text(json.dumps({**document, "ingest": {"plays": entry}}))
    events.write_text("{}\n")
    with enrich_process("rate", "run", "-c", file, "--events", events, "--step", "1h") as process:
        said = process.stderr
        assert said is not None
        wait_until(lambda: "warming up" in said.readline(), what="the first events")
        process.send_signal(number)
        assert process.wait(60) in (1, 128 + number)
