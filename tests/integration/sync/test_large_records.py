"""A record that no topic takes whole keeps nobody waiting: it is cut, or kept on the host, and its neighbours go on."""

import base64
import hashlib
import json
import random
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from enrich.config import load_text
from enrich.kafka import new_admin_client
from tests.support.sync.service import SyncWorld, running
from tests.support.waiting import wait_until


def _limit(world: SyncWorld, topic: str, largest: int) -> None:
    entry = ConfigEntry("max.message.bytes", str(largest), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = new_admin_client(world.cluster.connection)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def whole_lines(file: Path) -> dict[str, Any]:
    """The letters by their keys. The last one may just be on its way."""
    *lines, _ = file.read_text().split("\n")
    return {letter["key"]: letter for letter in map(json.loads, lines)}


def test_a_record_too_large_for_the_retry_topic_or_the_dlq_is_cut_and_its_neighbours_go_on(
    world: SyncWorld, tmp_path: Path
) -> None:
    world.make_topic(partitions=1)
    dlq, retry = f"{world.name}.out.dlq", f"{world.name}.out.retry.1s"
    for topic in (dlq, retry):
        world.cluster.topics.create(topic, config={"cleanup.policy": "compact", "max.message.bytes": "60000"})
    world.redis.rpush(f"{world.name}:taken", "by another program")
    large = json.dumps({"plan": "x" * 999_900, "rps": 1}).encode()
    producer = Producer({**world.cluster.connection, "message.max.bytes": 2_000_000, "compression.type": "lz4"})
    producer.produce(world.topic, large, b"taken")
    producer.produce(world.topic, b"!" * 850_000, b"k" * 150_000)
    producer.flush()
    large_letter = base64.b64encode(random.Random(1).randbytes(15_000))  # clients compress
    data = world.data(world.to_redis(), retries=["1s"])

    def has(*keys: str) -> bool:
        return bool(world.redis.exists(*(f"{world.name}:{key}" for key in keys)) == len(keys))

    data["state_dir"] = str(tmp_path)
    with running(load_text(json.dumps(data), {})) as service:
        world.produce(*((f"a{n}", {"plan": "p", "rps": n}) for n in range(10)))
        wait_until(lambda: has(*(f"a{n}" for n in range(10))), what="the neighbours")
        letters = wait_until(lambda: world.dead_letters(2), what="two letters")
        first, second = letters[f"{world.topic}/0/0"], letters[f"{world.topic}/0/1"]
        assert first["enrich.sha256"] == hashlib.sha256(large).hexdigest()
        assert first["value"].encode() == large[: len(first["value"])] and len(first["value"]) > 55_000
        assert "WRONGTYPE" in first["enrich.reason"] and "too large for the retry topic" in first["enrich.reason"]
        assert second["enrich.length"] == "850000" and second["enrich.key_length"] == "150000"
        assert second["enrich.key_sha256"] == hashlib.sha256(b"k" * 150_000).hexdigest()
        # The limit is lowered while the route works; then to less than any letter takes.
        _limit(world, dlq, 5_000)
        world.cluster.produce(world.topic, [(b"third", large_letter), (b"b", b'{"plan": "p", "rps": 1}')])
        wait_until(lambda: has("b"), what="its neighbour")
        third = wait_until(lambda: world.dead_letters(3), what="the third letter")[f"{world.topic}/0/12"]
        assert 3_000 < len(third["value"]) < 5_000 and third["enrich.length"] == "20000"
        _limit(world, dlq, 300)
        world.cluster.produce(world.topic, [(b"fourth", large_letter), (b"c", b'{"plan": "p", "rps": 1}')])
        wait_until(lambda: has("c"), what="its neighbour")
        (file,) = wait_until(lambda: list(tmp_path.rglob("out.dead-letters.jsonl")), what="the file")
        wait_until(lambda: service.status().counters.get("dead_letters_spilled"))
        name = f"{world.topic}/0/14/{world.name}.sync.out/{world.cluster.topics.topic_id(world.topic)}"
        wait_until(lambda: name in whole_lines(file), what="the letter")
        assert base64.b64decode(whole_lines(file)[name]["value"]) == large_letter
        assert str(file) in str(service.status().details["warnings"])
