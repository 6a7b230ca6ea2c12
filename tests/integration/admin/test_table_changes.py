"""`enrich table load|put|delete|rebuild` and `--from-topic`: all of a command at once, or nothing of it."""

import json
import signal

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from enrich.config import load
from enrich.host.ipc.store_paths import paths_of
from tests.support.commands import enrich, enrich_process, lines
from tests.support.host.ending import stop_agent_of
from tests.support.waiting import wait_until


@pytest.fixture
def users(new_topic):
    return new_topic(partitions=2, cleanup_policy="compact")


@pytest.fixture
def config(write_config, users):
    path = write_config(f"tables:\n  users: {{topic: {users}, format: json, columns: 'plan string, rps int'}}\n")
    yield path
    stop_agent_of(load(path))


@pytest.fixture
def newest(cluster, users):
    """Of each key the newest value in the topic; deleted ones are left out."""

    def read():
        rows = {message.key().decode(): message.value() for message in cluster.messages(users)}
        return {key: json.loads(value) for key, value in rows.items() if value is not None}

    return read


def csv(path, *rows):
    path.write_text("user_id,plan,rps\n" + "".join(f"{row}\n" for row in rows))
    return path


def test_a_file_is_told_first_then_loaded_and_replaces_what_is_not_in_it(config, tmp_path, cluster, users, newest):
    cluster.produce(users, [(b"old", b'{"plan": "max"}'), (b"gone", b"{}"), (b"gone", None), (b"ann", b"{}")])
    file = csv(tmp_path / "users.csv", "ann,free,1", "bob,pro,", "ann,pro,2")
    arguments = ("table", "load", "users", file, "--key", "user_id", "--replace", "-c", config, "--json")
    told = enrich(*arguments)
    assert told.returncode == 0, told.stderr
    (counts,) = lines(told)
    expected = {"table": "users", "topic": users, "done": False, "rows": 3, "written": 3, "deleted": 1, "repeated": 1}
    assert {name: counts[name] for name in expected} == expected
    assert list(counts) == [*expected, "rejected", "reasons", "seconds"]
    assert set(newest()) == {"old", "ann"}
    done = enrich(*arguments, "--yes")
    assert done.returncode == 0, done.stderr
    assert lines(done)[0]["done"] is True
    assert newest() == {"ann": {"plan": "pro", "rps": 2}, "bob": {"plan": "pro", "rps": None}}


def test_parquet_and_json_are_loaded_with_composite_keys(config, tmp_path, newest):
    table = pa.table({"a": ["x"], "b": pa.array([7], pa.int64()), "plan": ["pro"], "rps": pa.array([1], pa.int32())})
    parquet.write_table(table, tmp_path / "users.parquet")
    done = enrich("table", "load", "users", tmp_path / "users.parquet", "--key", "a,b", "--yes", "-c", config)
    assert done.returncode == 0, done.stderr
    (tmp_path / "users.jsonl").write_text('{"key": "ann", "plan": "free", "more": 1}\n')
    assert enrich("table", "load", "users", tmp_path / "users.jsonl", "--yes", "-c", config).returncode == 0
    assert newest() == {'["x","7"]': {"plan": "pro", "rps": 1}, "ann": {"plan": "free", "rps": None}}


def test_nothing_is_written_of_a_file_with_a_fault_anywhere(config, tmp_path, newest):
    arguments = ("--key", "user_id", "--yes", "-c", config)
    good = [f"u{number},free,1" for number in range(300_000)]
    done = enrich("table", "load", "users", csv(tmp_path / "wrong.csv", *good, "zoe,free,many"), *arguments)
    assert done.returncode == 2, done.stderr
    assert "does not fit its column's type" in done.stderr
    done = enrich("table", "load", "users", csv(tmp_path / "null.csv", *good[:5], ",free,1"), *arguments)
    assert (done.returncode, "a part of the key is null" in done.stderr) == (4, True)
    (tmp_path / "lacks.csv").write_text("user_id,plan\nann,free\n")
    done = enrich("table", "load", "users", tmp_path / "lacks.csv", *arguments)
    assert (done.returncode, "no column rps" in done.stderr) == (2, True)
    # JSON does not name its columns: rows of another shape would all be null.
    (tmp_path / "nested.jsonl").write_text('{"user_id": "ann", "value": {"plan": "free"}}\n')
    done = enrich("table", "load", "users", tmp_path / "nested.jsonl", *arguments)
    assert (done.returncode, "it has none of the columns plan, rps" in done.stderr) == (4, True)
    assert newest() == {}
    done = enrich("table", "load", "users", tmp_path / "null.csv", *arguments, "--skip-rejected", "--json")
    assert (done.returncode, lines(done)[0]["rejected"], len(newest())) == (0, 1, 5)


def test_ctrl_c_in_a_load_leaves_nothing(config, tmp_path, cluster, users, newest):
    file = csv(tmp_path / "users.csv", *(f"u{number},free,1" for number in range(1_000_000)))
    with enrich_process("table", "load", "users", file, "--key", "user_id", "--yes", "-c", config) as load:
        wait_until(lambda: sum(cluster.topics.written_offsets(users).values()) > 0, what="the first records")
        load.send_signal(signal.SIGINT)
        _, errors = load.communicate(timeout=180)
    assert load.returncode == 130, errors
    wait_until(lambda: cluster.topics.end_offsets(users) == cluster.topics.written_offsets(users), what="the abort")
    assert newest() == {}


def test_rows_are_put_got_from_the_topic_and_deleted(config, newest):
    done = enrich("table", "put", "users", "ann", '{"plan": "free"}', "-c", config, "--json")
    assert done.returncode == 0, done.stderr
    (written,) = lines(done)
    assert list(written) == ["table", "topic", "key", "partition", "offset"]
    assert enrich("table", "put", "users", "ann", '{"plan": "pro"}', "-c", config).returncode == 0
    for value, told in (
        ("[]", "not a JSON object"),
        ('{"plna": 1}', "no column plna"),
        ('{"plan": 1}', "plan: expected"),
    ):
        done = enrich("table", "put", "users", "ann", value, "-c", config)
        assert (done.returncode, told in done.stderr) == (2, True), done.stderr
    (row,) = lines(enrich("table", "get", "users", "ann", "--from-topic", "-c", config, "--json"))
    assert row["value"]["plan"] == "pro"
    assert list(row) == ["key", "value", "partition", "offset", "timestamp"]
    past = lines(enrich("table", "history", "users", "ann", "--from-topic", "-c", config, "--json"))
    assert [row["value"]["plan"] for row in past] == ["free", "pro"]
    assert past[0]["offset"] == written["offset"]

    assert enrich("table", "delete", "users", "ann", "-c", config).returncode == 4
    assert set(newest()) == {"ann"}
    assert enrich("table", "delete", "users", "ann", "--yes", "-c", config).returncode == 0
    assert newest() == {}
    assert enrich("table", "get", "users", "ann", "zoe", "--from-topic", "-c", config).returncode == 1


def test_a_table_is_loaded_anew_when_asked(config, cluster, users):
    cluster.produce(users, [(str(number).encode(), b'{"plan": "free"}') for number in range(100)])
    assert enrich("table", "get", "users", "7", "-c", config).returncode == 0
    done = enrich("table", "rebuild", "users", "-c", config, "--json")
    assert done.returncode == 0, done.stderr
    assert lines(done)[0]["rows"] == 100
    log = next(paths_of(load(config)).folder.glob("agent.log")).read_text()
    assert "somebody asked for it" in log


@pytest.mark.parametrize("command", ["load", "put", "delete", "get"])
def test_a_broker_that_does_not_answer_ends_with_3(write_config, tmp_path, command):
    table = "tables:\n  users: {topic: users, format: json, columns: 'plan string'}\n"
    config = write_config(table, servers="127.0.0.1:1")
    arguments = {"load": ["x.csv"], "put": ["a", "{}"], "delete": ["a", "--yes"], "get": ["a", "--from-topic"]}[command]
    done = enrich("table", command, "users", *arguments, "-c", config, "--deadline", "1")
    assert done.returncode == 3, done.stderr


@pytest.mark.parametrize(("most", "large"), [(3_000_000, 2_000_000), (20_000, 15_000)])
def test_rows_may_be_as_large_as_their_topic_takes_them(write_config, cluster, new_topic, tmp_path, most, large):
    """What a client takes by default is no limit, neither of a row nor of many that are sent together."""
    topic = new_topic(cleanup_policy="compact", max_message_bytes=str(most))
    config = write_config(f"tables:\n  users: {{topic: {topic}, format: json, columns: 'plan string'}}\n")
    rows = {f"u{number}": "p" * 100 for number in range(5_000)} | {"large": "x" * large}
    file = tmp_path / "users.jsonl"
    file.write_text("".join(json.dumps({"key": key, "plan": plan}) + "\n" for key, plan in rows.items()))
    done = enrich("table", "load", "users", file, "--yes", "-c", config)
    assert done.returncode == 0, done.stderr
    done = enrich("table", "put", "users", "put", json.dumps({"plan": "y" * large}), "-c", config)
    assert done.returncode == 0, done.stderr
    done = enrich("table", "put", "users", "too", json.dumps({"plan": "y" * most}), "-c", config)
    assert (done.returncode, "the topic takes" in done.stderr) == (2, True), done.stderr
    found = {message.key().decode(): json.loads(message.value())["plan"] for message in cluster.messages(topic)}
    assert found == rows | {"put": "y" * large}
    copied = enrich("topics", "rekey", "users", "--to", f"{topic}.v2", "--partitions", "2", "-c", config)
    assert copied.returncode == 0, copied.stderr
    assert len(cluster.messages(f"{topic}.v2")) == len(found)


def test_rows_that_are_left_out_keep_what_the_topic_has_of_their_keys(write_config, cluster, new_topic, tmp_path):
    topic = new_topic(cleanup_policy="compact", max_message_bytes="20000")
    config = write_config(f"tables:\n  users: {{topic: {topic}, format: json, columns: 'plan string'}}\n")
    cluster.produce(topic, [(b"large", b'{"plan": "old"}'), (b"gone", b"{}")])
    file = tmp_path / "users.jsonl"
    file.write_text(
        "".join(json.dumps({"key": key, "plan": "p" * size}) + "\n" for key, size in [("large", 30_000), ("a", 1)])
    )
    done = enrich("table", "load", "users", file, "--replace", "--skip-rejected", "--yes", "--json", "-c", config)
    assert done.returncode == 0, done.stderr
    (counts,) = lines(done)
    assert (counts["written"], counts["rejected"], counts["deleted"], counts["repeated"]) == (1, 1, 1, 0)
    newest = {message.key(): message.value() for message in cluster.messages(topic)}
    assert newest == {b"large": b'{"plan": "old"}', b"a": b'{"plan":"p"}', b"gone": None}


def test_what_cannot_be_text_or_a_file_is_a_usage_error(config):
    bytes_of_latin_1 = "caf\udce9"  # as Python has an argument that is not UTF-8
    for command in (
        ("put", "users", bytes_of_latin_1, "{}"),
        ("put", "users", "ann", bytes_of_latin_1),
        ("delete", "users", "ann", bytes_of_latin_1, "--yes"),
        ("get", "users", bytes_of_latin_1),
        ("history", "users", bytes_of_latin_1),
        ("scan", "users", "--prefix", bytes_of_latin_1),
    ):
        done = enrich("table", *command, "-c", config)
        assert (done.returncode, r"`caf\xe9` is not UTF-8" in done.stderr) == (2, True), done.stderr
    done = enrich("table", "put", "users", "ann", "[" * 100_000, "-c", config)
    assert (done.returncode, "is not JSON" in done.stderr) == (2, True), done.stderr
    done = enrich("table", "load", "users", f"{'x' * 300}.csv", "-c", config)
    assert (done.returncode, "it cannot be read" in done.stderr) == (2, True), done.stderr
