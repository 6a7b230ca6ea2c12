"""`enrich doctor` says what is wrong and what to do, and changes nothing that matters."""

import pytest
import redis

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


def test_servers_that_do_not_answer_are_told_and_the_rest_is_looked_at_all_the_same(write_config):
    path = write_config(
        "memory: {budget: 900TiB}\ntables:\n  users: {topic: users, format: json, columns: 'plan string'}\n",
        servers="127.0.0.1:1', registry: {url: 'http://127.0.0.1:1'}}  # '",
    )
    done = enrich("doctor", "-c", path, "--deadline", "1", "--json")
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


@pytest.fixture
def wrong_state_dir(tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        f"name: wrong\nkafka: {{bootstrap_servers: '127.0.0.1:1'}}\nstate_dir: {tmp_path}/file/state\n"
        "tables: {users: {topic: users, format: json, columns: 'plan string'}}\n"
    )
    return path


def test_a_state_dir_that_cannot_be_is_bad(wrong_state_dir):
    found = verdicts(enrich("doctor", "-c", wrong_state_dir, "--deadline", "1", "--json"))
    assert (found["state_dir"], found["agent"]) == (["bad"], ["good"])


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
