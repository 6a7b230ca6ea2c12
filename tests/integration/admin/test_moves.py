"""`enrich topics rekey|copy`: key for key the same rows in the new topic, whatever interrupts the way."""

import json
import signal
import threading
import time
from contextlib import suppress
from functools import partial

import pytest

from enrich.base.errors import Retryable
from enrich.kafka import DeliveringProducer
from tests.support.commands import enrich, enrich_process, lines
from tests.support.seed import random_source, rounds
from tests.support.waiting import wait_until

NOW = time.time_ns() // 1_000_000  # of an older record the cleaner would take what it supersedes
AVRO = '{"type": "record", "name": "user", "fields": [{"name": "plan", "type": ["null", "string"]}]}'


@pytest.fixture
def users(new_topic):
    return new_topic(partitions=2, cleanup_policy="compact", min_compaction_lag_ms="3600000")


@pytest.fixture
def config(write_config, users):
    return write_config(
        f"tables:\n  users: {{topic: {users}, format: json, columns: 'plan string', history: 1h}}\n"
        f"  coded: {{topic: {users}.avro, format: avro, columns: 'plan string', schema: '{AVRO}'}}\n"
    )


def row(number):
    return json.dumps({"plan": f"p{number}"}).encode()


def sequences(cluster, topic):
    """Of each key its values in their order, where all stand in one partition."""
    found: dict[bytes, list[bytes | None]] = {}
    places: dict[bytes, set[int]] = {}
    for message in cluster.messages(topic):
        found.setdefault(message.key(), []).append(message.value())
        places.setdefault(message.key(), set()).add(message.partition())
    assert all(len(partitions) == 1 for partitions in places.values())
    return found


def test_a_table_moves_with_times_headers_and_deletions_and_each_key_has_one_place(config, cluster, users):
    with DeliveringProducer(cluster.connection) as producer:
        for number in range(200):
            for version in range(3):
                key, at = f"k{number}".encode(), NOW + version
                producer.produce(users, key, row(version), timestamp_ms=at, headers={"n": b"%d" % version})
        producer.produce(users, b"k7", None)
        # Two partitions, and the later offset is not the later time.
        producer.produce(users, b"both", row(10), partition=0, timestamp_ms=NOW + 10)
        producer.produce(users, b"both", row(5), partition=0, timestamp_ms=NOW + 5)
        producer.produce(users, b"both", row(7), partition=1, timestamp_ms=NOW + 7)
    target = f"{users}.v2"
    arguments = ("topics", "rekey", "users", "--to", target, "--partitions", "5", "-c", config, "--json")
    first = enrich(*arguments)
    assert first.returncode == 0, first.stderr
    (told,) = lines(first)
    assert (told["records"], told["split_keys"], told["resumed"], told["done"]) == (604, 1, False, False)
    cluster.produce(users, [(b"k8", row(99))])
    (told,) = lines(enrich(*arguments, "--cutover", "--quiet", "0.2"))
    assert (told["records"], told["resumed"], told["keys"], told["done"]) == (1, True, 200, True)

    assert len(cluster.topics.partitions(target)) == 5
    moved = sequences(cluster, target)
    assert moved[b"both"][-1] == row(7)
    assert moved[b"k7"] == [row(0), row(1), row(2), None]
    assert moved[b"k8"] == [row(0), row(1), row(2), row(99)]
    message = next(message for message in cluster.messages(target) if message.key() == b"k3")
    assert (message.timestamp()[1], message.headers()) == (NOW, [("n", b"0")])

    assert enrich("topics", "check", users, "--settings-only", "-c", config).returncode in (0, 1)
    cluster.produce(users, [(b"late", row(1))])
    (checked,) = lines(enrich("topics", "check", users, "-c", config, "--json"))
    assert "written_after_move" in {finding["problem"] for finding in checked["findings"]}


def test_rows_move_to_another_format_and_one_that_cannot_stops_the_move(config, cluster, users):
    cluster.produce(users, [(b"ann", row(1)), (b"bob", row(2)), (b"gone", row(3)), (b"gone", None)])
    (told,) = lines(enrich("topics", "copy", "users", "coded", "--cutover", "--quiet", "0.1", "-c", config, "--json"))
    assert (told["keys"], told["differences"], told["done"]) == (2, 0, True)
    assert {m.key(): m.value() for m in cluster.messages(f"{users}.avro")} == {
        b"ann": b"\x02\x04p1",
        b"bob": b"\x02\x04p2",
        b"gone": None,
    }
    cluster.produce(users, [(b"eve", b"no json")])
    done = enrich("topics", "copy", "users", "coded", "-c", config)
    assert (done.returncode, "key eve" in done.stderr) == (4, True)
    cluster.produce(users, [(b"eve", row(4))])
    assert enrich("topics", "copy", "users", "coded", "-c", config).returncode == 4  # the record stands there for ever


def test_a_target_of_somebody_else_and_writers_that_do_not_rest_are_refused(config, cluster, users, new_topic):
    cluster.produce(users, [(b"ann", row(1))])
    taken = new_topic(partitions=2, cleanup_policy="compact")
    cluster.produce(taken, [(b"x", b"y")])
    assert enrich("topics", "rekey", "users", "--to", taken, "-c", config).returncode == 4
    stop = threading.Event()

    def write():
        with DeliveringProducer(cluster.connection) as producer:
            while not stop.wait(0.05):
                producer.produce(users, b"ann", row(2))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        arguments = ("rekey", "users", "--to", f"{users}.v2", "--cutover", "--quiet", "1", "--wait", "2")
        done = enrich("topics", *arguments, "-c", config, "--json")
    finally:
        stop.set()
        writer.join()
    assert (done.returncode, lines(done)[0]["quiet"], lines(done)[0]["done"]) == (1, False, False)


def test_a_move_that_follows_takes_what_is_written_until_ctrl_c_and_the_next_run_finishes_it(config, cluster, users):
    cluster.produce(users, [(b"ann", row(1))])
    target = f"{users}.v2"
    arguments = ("topics", "rekey", "users", "--to", target, "--partitions", "3", "-c", config)
    with enrich_process(*arguments, "--follow") as move:
        for number in range(2, 5):
            _until_there(cluster, target, number - 1)
            cluster.produce(users, [(b"ann", row(number))])
        _until_there(cluster, target, 4)
        move.send_signal(signal.SIGINT)
        _, errors = move.communicate(timeout=120)
    assert (move.returncode, "Traceback" in errors) == (130, False)
    (told,) = lines(enrich(*arguments, "--cutover", "--quiet", "0.1", "--json"))
    assert (told["records"], told["resumed"], told["done"]) == (0, True, True)
    assert _values(cluster, target) == [row(1), row(2), row(3), row(4)]


def _until_there(cluster, topic, number):
    wait_until(lambda: len(_values(cluster, topic)) == number, what=f"{number} records")


def _values(cluster, topic):
    with suppress(Retryable):  # a topic that is being made
        return [message.value() for message in cluster.messages(topic)] if cluster.topics.exists(topic) else []
    return []


def _has_begun(cluster, topic, process):
    with suppress(Retryable):  # a topic that is being made has no leaders yet
        return process.poll() is not None or (
            cluster.topics.exists(topic) and sum(cluster.topics.written_offsets(topic).values()) > 0
        )
    return False


def test_a_move_that_is_killed_again_and_again_ends_as_an_undisturbed_one(config, cluster, users):
    chance = random_source("move killed")
    number = rounds(20_000, 300_000)
    keys = number // 5
    with DeliveringProducer(cluster.connection) as producer:
        for one in range(number):
            key = chance.randrange(keys)
            value = None if chance.random() < 0.1 else row(one)
            # Some keys stand in both partitions.
            partition = chance.randrange(2) if key < 50 else None
            producer.produce(users, b"%d" % key, value, timestamp_ms=NOW + one, partition=partition)
    target, calm = f"{users}.v2", f"{users}.calm"
    arguments = ("--partitions", "3", "-c", config, "--json")
    for _ in range(rounds(2, 20)):
        with enrich_process("topics", "rekey", "users", "--to", target, *arguments) as move:
            wait_until(partial(_has_begun, cluster, target, move), what="the first records")
            time.sleep(chance.uniform(0, 1.0))  # not a wait: where the kill comes is what is tried out
    done = enrich("topics", "rekey", "users", "--to", target, *arguments, "--cutover", "--quiet", "0.1")
    assert lines(done)[0]["done"], done
    assert lines(enrich("topics", "rekey", "users", "--to", calm, *arguments))[0]["records"] == number
    disturbed, undisturbed = sequences(cluster, target), sequences(cluster, calm)
    assert {key: values[-1] for key, values in disturbed.items()} == {
        key: values[-1] for key, values in undisturbed.items()
    }
    whole = [key for key in undisturbed if int(key) >= 50]
    assert {key: disturbed[key] for key in whole} == {key: undisturbed[key] for key in whole}


def test_a_broker_that_does_not_answer_ends_with_3(config, write_config):
    away = write_config(config.read_text().split("\n", 3)[3], servers="127.0.0.1:1", name="away.yaml")
    for command in (["rekey", "users", "--to", "x"], ["copy", "users", "coded"]):
        assert enrich("topics", *command, "-c", away, "--deadline", "1").returncode == 3


def test_a_target_that_cannot_be_is_a_usage_error(write_config, new_topic):
    topic = new_topic(cleanup_policy="compact")
    config = write_config(f"tables: {{users: {{topic: {topic}, format: json, columns: 'plan string'}}}}\n")
    for wrong in (["--to", ""], ["--to", f"{topic}.v2", "--partitions", "99999999999"]):
        done = enrich("topics", "rekey", "users", *wrong, "-c", config)
        assert done.returncode == 2, done.stderr
    done = enrich("table", "scan", "users", "--limit", str(10**20), "-c", config)
    assert done.returncode == 2, done.stderr
