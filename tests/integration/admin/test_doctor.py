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
        servers="127.0.0.1:1",
    )
    done = enrich("doctor", "-c", path, "--deadline", "1", "--json")
    found = verdicts(done)
    assert (done.returncode, found["kafka"], found["memory"]) == (1, ["bad"], ["bad"])
    assert verdicts(enrich("doctor", "--json"))["java"] == ["good"]
