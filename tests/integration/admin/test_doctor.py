"""`enrich doctor` says what is wrong and what to do, and changes nothing that matters."""

import psycopg
import pytest
import redis

from enrich.admin.doctor.machine import of_state_dir
from enrich.admin.topics.notes import NOTES_TOPIC
from enrich.config import load
from enrich.kafka import DeliveringProducer
from tests.support.commands import enrich, lines


@pytest.fixture
def config(write_config, stack, new_topic):
    topic = new_topic(partitions=4)
    return topic, write_config(
        f"tables:\n  users: {{topic: {topic}, format: json, columns: 'plan string'}}\n"
        "sync:\n  writeback:\n    to_redis:\n"
        f"      {{topic: {topic}, format: json, columns: 'plan string', "
        f"to: {{redis: {{url: '{stack.redis_url}', key: 'user:{{key}}', as: hash}}}}}}\n"
    )


def verdicts(done):
    found: dict[str, list[str]] = {}
    for verdict in lines(done):
        assert list(verdict) == ["check", "level", "what", "next"]
        assert verdict["level"] == "good" or verdict["next"], verdict
        found.setdefault(verdict["check"], []).append(verdict["level"])
    return found


def test_what_is_wrong_is_bad_until_it_is_put_right(config, stack):
    _, path = config
    done = enrich("doctor", "-c", path, "--json")
    found = verdicts(done)
    assert done.returncode == 1
    assert set(found["topics"]) == {"bad"}
    assert found["kafka"] == ["good"]
    assert {"versions", "java", "memory", "state_dir", "disk_space", "disk_speed", "agent", "redis"} <= set(found)
    assert enrich("topics", "apply", "--yes", "-c", path).returncode == 0
    found = verdicts(enrich("doctor", "-c", path, "--json"))
    assert (found["topics"], found["clock"], found["redis"]) == (["good"], ["good"], ["good"])

    with redis.Redis.from_url(stack.redis_url) as server:
        server.config_set("maxmemory-policy", "allkeys-lru")
        try:
            done = enrich("doctor", "-c", path)
        finally:
            server.config_set("maxmemory-policy", "noeviction")
    assert done.returncode == 1
    assert "bad redis" in done.stdout and "noeviction" in done.stdout


def test_the_brokers_clock_is_theirs_and_not_that_of_who_wrote_a_record(config, cluster):
    _, path = config
    assert enrich("topics", "apply", "--yes", "-c", path).returncode == 0
    cluster.alter(NOTES_TOPIC, "message.timestamp.type", "CreateTime")
    try:
        ((level, what, _),) = of_check(enrich("doctor", "-c", path, "--json"), "clock")
        assert (level, "LogAppendTime" in what) == ("warning", True)
    finally:
        cluster.alter(NOTES_TOPIC, "message.timestamp.type", "LogAppendTime")
    ((level, what, _),) = of_check(enrich("doctor", "-c", path, "--json"), "clock")
    assert level == "good", what


@pytest.mark.parametrize("deadline", ["1", "inf"])
def test_servers_that_do_not_answer_are_told_and_the_rest_is_looked_at_all_the_same(write_config, deadline):
    path = write_config(
        "memory: {budget: 900TiB}\ntables:\n  users: {topic: users, format: json, columns: 'plan string'}\n",
        servers="127.0.0.1:1', registry: {url: 'http://127.0.0.1:1'}}  # '",
    )
    done = enrich("doctor", "-c", path, "--deadline", deadline, "--json")
    found = verdicts(done)
    assert (done.returncode, found["kafka"], found["memory"]) == (1, ["bad"], ["bad"])
    assert found["registry"] == ["bad"]
    assert verdicts(enrich("doctor", "--json"))["java"] == ["good"]


def test_a_password_that_redis_never_looks_at_is_a_warning(write_config, stack):
    url = stack.redis_url.replace("//", "//:not-asked-for@")
    path = write_config(
        "sync:\n  writeback:\n    to_redis: {topic: users, format: json, columns: 'plan string', "
        f"to: {{redis: {{url: '{url}', key: 'user:{{key}}', as: hash}}}}}}\n"
    )
    done = enrich("doctor", "-c", path, "--json")
    assert verdicts(done)["redis"] == ["warning", "good"]
    (warning,) = [verdict for verdict in lines(done) if verdict["check"] == "redis" and verdict["level"] == "warning"]
    assert "asks for no password" in warning["what"] and "requirepass" in warning["next"]
    assert "not-asked-for" not in done.stdout


def config_with_state_dir(tmp_path, state_dir):
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        f"name: wrong\nkafka: {{bootstrap_servers: '127.0.0.1:1'}}\nstate_dir: {state_dir}\n"
        "tables: {users: {topic: users, format: json, columns: 'plan string'}}\n"
    )
    return path


@pytest.fixture
def wrong_state_dir(tmp_path):
    (tmp_path / "file").touch()
    return config_with_state_dir(tmp_path, tmp_path / "file" / "state")


def test_a_state_dir_that_cannot_be_is_bad(wrong_state_dir):
    found = verdicts(enrich("doctor", "-c", wrong_state_dir, "--deadline", "1", "--json"))
    assert (found["state_dir"], found["agent"]) == (["bad"], ["good"])


def test_a_state_dir_that_is_not_there_yet_is_not_made_and_its_place_is_checked(tmp_path):
    path = config_with_state_dir(tmp_path, tmp_path / "parent" / "state")
    done = enrich("doctor", "-c", path, "--deadline", "1", "--json")
    ((level, what, _),) = of_check(done, "state_dir")
    assert level != "bad" and "will be made at the first start" in what
    assert {"disk_space", "disk_speed"} <= set(verdicts(done))
    assert list(tmp_path.iterdir()) == [path]


def test_a_state_dir_that_is_a_file_or_a_link_to_nothing_is_bad(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for name, reason in {"file": "Not a directory", "link": "No such file or directory"}.items():
        (found,) = of_state_dir(load(config_with_state_dir(tmp_path, tmp_path / name)))
        assert (found.level, reason in found.what) == ("bad", True), found.what


@pytest.mark.parametrize(
    "words",
    [
        ("table", "get", "users", "key"),
        ("table", "stats"),
        ("table", "verify", "users"),
        ("quarantine", "list", "users"),
    ],
    ids=" ".join,
)
def test_commands_name_a_state_dir_that_cannot_be(wrong_state_dir, words):
    done = enrich(*words, "-c", wrong_state_dir)
    assert done.returncode == 2
    assert "Not a directory" in done.stderr and "state_dir" in done.stderr and "Traceback" not in done.stderr
    status = enrich("agent", "status", "-c", wrong_state_dir)
    assert (status.returncode, status.stderr) == (1, "")


def of_check(done, check):
    return [(each["level"], each["what"], each["next"]) for each in lines(done) if each["check"] == check]


def test_a_release_that_has_fallen_is_a_warning(write_config, new_topic, cluster):
    topic = new_topic(partitions=2)
    source = f"{{topic: {topic}, format: json, from: {{file: {{path: /none.csv, key: [id]}}}}}}"

    def told(release):
        path = write_config(f"release: {release}\nsync: {{sources: {{users: {source}}}}}\n")
        return of_check(enrich("doctor", "-c", path, "--json"), "release")

    assert told(0) == []  # nobody is bothered who has none
    assert [level for level, _, _ in told(7)] == ["good"]
    with DeliveringProducer(cluster.connection) as producer:
        for release in range(1, 9):
            producer.produce(topic, b"k%d" % release, b"{}", headers={"enrich.release": b"%d" % release})
    assert [level for level, _, _ in told(8)] == ["good"]
    ((level, what, next_step),) = told(7)
    assert level == "warning" and next_step.startswith("set `release` to 8 or more")
    assert f"topic {topic} has records of release 8, and this is release 7" in what
    ((level, what, _),) = told(0)
    assert level == "warning" and "the pipeline has no release" in what


def test_a_table_that_cannot_hold_the_rows_is_bad_and_says_the_statement(write_config, servers):
    name, dsn = "doctors_table", servers.postgres_dsn
    to = f"{{postgres: {{dsn: '{dsn}', table: {name}, key: [id]}}}}"
    route = f"{{topic: users, format: json, columns: 'plan string', to: {to}}}"

    def told(release):
        path = write_config(f"release: {release}\nsync: {{writeback: {{users: {route}}}}}\n")
        return of_check(enrich("doctor", "-c", path, "--json"), "postgres")

    ((level, what, _),) = told(0)
    assert level == "bad" and f"there is no table {name}" in what
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {name} (id text PRIMARY KEY, plan text, version bigint, deleted boolean)")
        assert [level for level, _, _ in told(0)] == ["good"]
        ((level, what, next_step),) = told(7)
        statement = f"ALTER TABLE {name} ADD COLUMN release bigint"
        assert level == "bad" and "no column release" in what and statement in next_step
        connection.execute(statement)
        assert [level for level, _, _ in told(7)] == ["good"]
