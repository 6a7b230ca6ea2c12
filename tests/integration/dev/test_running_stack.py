"""A stack with all four servers, as its users meet it. The tests share one stack: starting it takes seconds."""

import json
import os
import re
import signal
import subprocess
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest
import redis

from tests.integration.dev.stacks import StackUnderTest
from tests.support.kafka.topics import Cluster
from tests.support.processes import frozen, is_running, kill
from tests.support.waiting import wait_until

SERVERS = ("kafka", "redis", "postgres", "registry")


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    stack = StackUnderTest(tmp_path_factory.mktemp("all") / "my [old] stack")
    yield stack
    stack.clear_away()


@pytest.fixture(scope="module")
def addresses(stack):
    """Where they answer. PostgreSQL and the registry were added to what ran."""
    first = stack.up()
    assert list(first) == ["bootstrap_servers", "redis_url"]
    all_four = stack.up("--with", "postgres,registry")
    assert all_four.items() > first.items()
    return all_four


def write_to_kafka(addresses, text):
    cluster = Cluster({"bootstrap.servers": addresses["bootstrap_servers"]})
    cluster.topics.create(text)
    cluster.produce(text, [(b"key", text.encode())])


def read_from_kafka(addresses, text):
    (message,) = Cluster({"bootstrap.servers": addresses["bootstrap_servers"]}).messages(text)
    return str(message.value() or b"", "utf-8")


def write_to_redis(addresses, text):
    with redis.Redis.from_url(addresses["redis_url"]) as client:
        client.set("key", text)


def read_from_redis(addresses, _):
    with redis.Redis.from_url(addresses["redis_url"], decode_responses=True) as client:
        return client.get("key")


def write_to_postgres(addresses, text):
    with psycopg.connect(addresses["postgres_dsn"]) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (text text)")
        connection.execute("DELETE FROM kept")
        connection.execute("INSERT INTO kept VALUES (%s)", (text,))


def read_from_postgres(addresses, _):
    with psycopg.connect(addresses["postgres_dsn"]) as connection:
        ((text,),) = connection.execute("SELECT text FROM kept").fetchall()
        return text


def ask_registry(addresses, path, body=None):
    url = urlsplit(addresses["registry_url"])
    with closing(HTTPConnection(url.netloc, timeout=60)) as connection:
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        data = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", url.path + path, data, headers)
        answer = connection.getresponse()
        assert answer.status == 200
        return json.load(answer)


def write_to_registry(addresses, text):
    schema = json.dumps({"type": "enum", "name": "T", "symbols": [text.replace("-", "_")]})
    ask_registry(addresses, f"/subjects/{text}/versions", {"schema": schema})


def read_from_registry(addresses, text):
    schema = ask_registry(addresses, f"/subjects/{text}/versions/latest")["schema"]
    return json.loads(schema)["symbols"][0].replace("_", "-")


WRITE = {"kafka": write_to_kafka, "redis": write_to_redis, "postgres": write_to_postgres, "registry": write_to_registry}
READ = {
    "kafka": read_from_kafka,
    "redis": read_from_redis,
    "postgres": read_from_postgres,
    "registry": read_from_registry,
}


def test_up_prints_the_addresses_of_what_runs_as_one_line_of_json(stack, addresses):
    done = stack.run("up", "--json")
    assert done.stdout.count("\n") == 1
    assert json.loads(done.stdout) == addresses
    assert list(addresses) == ["bootstrap_servers", "redis_url", "postgres_dsn", "registry_url"]
    assert re.fullmatch(r"127\.0\.0\.1:\d+", addresses["bootstrap_servers"])
    assert re.fullmatch(r"redis://127\.0\.0\.1:\d+/0", addresses["redis_url"])
    assert re.fullmatch(r"postgresql://\w+:[\w-]+@127\.0\.0\.1:\d+/\w+", addresses["postgres_dsn"])
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/apis/ccompat/v7", addresses["registry_url"])


@pytest.mark.parametrize("server", SERVERS)
def test_each_server_takes_and_gives_data(addresses, server):
    WRITE[server](addresses, f"{server}-first")
    assert READ[server](addresses, f"{server}-first") == f"{server}-first"


def test_up_twice_changes_nothing(stack, addresses):
    before = stack.pids()
    assert stack.up() == addresses
    assert stack.up("--with", "postgres") == addresses
    assert stack.pids() == before


def test_people_see_a_table_of_addresses_and_the_next_step(stack, addresses):
    done = stack.run("up")
    assert all(address in done.stdout for address in addresses.values())
    assert f"next: enrich init · enrich demo · enrich dev status --dir '{stack.directory}'" in done.stdout


def test_a_terminal_without_a_letter_gets_a_question_mark(stack, addresses):
    done = stack.run("up", env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "next: enrich init ? enrich demo ? enrich dev status" in done.stdout


def test_nothing_listens_elsewhere_than_on_the_loopback_interface(stack, addresses):
    listening = {
        connection.laddr.ip.removeprefix("::ffff:")
        for entry in stack.processes()
        for connection in psutil.Process(int(entry.split()[0])).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_status_says_of_each_server_where_since_when_and_how_large(stack, addresses):
    done = stack.run("status", "--json")
    assert done.returncode == 0
    entries = [json.loads(line) for line in done.stdout.splitlines()]
    assert [entry["server"] for entry in entries] == list(SERVERS)
    assert [entry["address"] for entry in entries] == list(addresses.values())
    for entry in entries:
        assert entry["state"] == "running"
        assert is_running(entry["pid"])
        assert 1_000_000 < entry["memory_bytes"] < 1_000_000_000
        assert entry["since"].endswith("+00:00")


def test_postgresql_never_runs_as_root(stack, addresses):
    assert psutil.Process(stack.pids()["postgres"]).uids().effective != 0


def test_postgresql_lets_nobody_in_without_its_password(addresses):
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(re.sub(r":[\w-]+@", ":wrong@", addresses["postgres_dsn"]))


def test_servers_belong_to_no_terminal_and_survive_their_starter(stack, addresses):
    for pid in stack.pids().values():
        assert os.getsid(pid) == pid
        assert psutil.Process(pid).terminal() is None


def test_logs_shows_the_last_lines_of_one_or_all(stack, addresses):
    assert "Kafka Server started" in stack.run("logs", "kafka", "-n", "10000").stdout
    assert len(stack.run("logs", "redis", "-n", "1").stdout.splitlines()) == 1
    everything = stack.run("logs", "-n", "2").stdout.splitlines()
    assert [line.split("|")[0].strip() for line in everything] == [name for name in SERVERS for _ in range(2)]
    unknown = stack.run("logs", "rabbit")
    assert unknown.returncode == 2
    assert "kafka, redis, postgres, registry" in unknown.stderr


def test_logs_can_be_followed(stack, addresses, tmp_path):
    command = stack.command("logs", "postgres", "-f", "-n", "0")
    shown = tmp_path / "shown"
    with shown.open("w") as output, subprocess.Popen(command, stdout=output) as follower:
        try:
            # Each try is one more line in the log, until the follower is there to see one.
            wait_until(lambda: _refused(addresses) and "authentication failed" in shown.read_text(), what="a line")
        finally:
            follower.send_signal(signal.SIGINT)
        assert follower.wait(timeout=60) == 130


def _refused(addresses):
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(re.sub(r":[\w-]+@", ":wrong@", addresses["postgres_dsn"]))
    return True


def test_a_killed_server_is_reported_and_started_again_while_the_others_go_on(stack, addresses):
    before = stack.pids()
    kill(before["redis"])

    seen = stack.run("status", "--json")
    assert seen.returncode == 1
    states = {entry["server"]: entry["state"] for entry in map(json.loads, seen.stdout.splitlines())}
    assert states == {**dict.fromkeys(SERVERS, "running"), "redis": "dead"}

    done = stack.run("up", "--json")
    assert json.loads(done.stdout) == addresses
    assert "redis had died; started again at redis://" in done.stderr
    assert {name for name, pid in stack.pids().items() if pid != before[name]} == {"redis"}


def test_killed_servers_come_back_at_their_addresses_with_all_acknowledged_data(stack, addresses):
    for server in SERVERS:
        WRITE[server](addresses, f"{server}-kept")
    for pid in stack.pids().values():
        kill(pid)
    wait_until(lambda: stack.processes() == [], what="the end of the children of killed servers")

    done = stack.run("up", "--json")
    assert json.loads(done.stdout) == addresses
    for server in SERVERS:
        assert f"{server} had died; started again" in done.stderr
        assert READ[server](addresses, f"{server}-kept") == f"{server}-kept"


def test_a_frozen_server_is_told_from_one_that_answers(stack, addresses):
    with frozen(stack.pids()["redis"]):
        done = stack.run("status", "--json")
    assert done.returncode == 1
    states = {entry["server"]: entry["state"] for entry in map(json.loads, done.stdout.splitlines())}
    assert states == {**dict.fromkeys(SERVERS, "running"), "redis": "silent"}


def test_down_leaves_no_process_and_the_next_up_finds_data_and_ports(stack, addresses):
    WRITE["kafka"](addresses, "before-down")
    WRITE["redis"](addresses, "before-down")
    WRITE["postgres"](addresses, "before-down")
    os.kill(stack.pids()["redis"], signal.SIGSTOP)  # a server that does not react now is stopped all the same
    done = stack.run("down")
    assert done.stdout == "stopped registry, postgres, redis, kafka\n"
    assert stack.processes() == []
    again = stack.run("down")
    assert (again.returncode, again.stdout) == (0, "nothing was running\n")
    assert {entry["state"] for entry in stack.status().values()} == {"stopped"}
    assert stack.run("status").returncode == 0

    # What was not asked for again stays down, and its ports stay its own.
    some = stack.up("--with", "postgres")
    assert some == {name: address for name, address in addresses.items() if name != "registry_url"}
    assert stack.status()["registry"]["address"] == addresses["registry_url"]
    assert READ["kafka"](some, "before-down") == "before-down"
    assert READ["redis"](some, "before-down") == "before-down"
    assert READ["postgres"](some, "before-down") == "before-down"
