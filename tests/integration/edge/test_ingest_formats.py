"""Bodies of every format, and what becomes of bad events: refused with the whole request, or dead letters."""

import gzip
import hashlib
import http.client
import json
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest

from enrich.dev import temporary_stack
from tests.contract.codecs.decoders import SCHEMA, framed
from tests.property.codecs.avro_values import written
from tests.support.edge.ingesting import running, sent, write_config
from tests.support.waiting import GUARD_S, wait_until

FREE = "listen: '127.0.0.1:0'"
ORIGINS: dict[str, Any] = {"prefer": "return=representation"}


@pytest.fixture
def config(stack, tmp_path):
    def write(sections):
        return write_config(tmp_path / "pipeline.yaml", stack.bootstrap_servers, sections)

    return write


def values(cluster, topic):
    return sorted(message.value() for message in cluster.messages(topic))


def test_a_body_of_bytes_or_text_is_one_event_as_it_is(config, cluster, new_topic):
    raw, texts = new_topic(), new_topic()
    path = config(
        f"ingest:\n  raw: {{{FREE}, path: /raw, topic: {raw}, format: bytes}}\n"
        f"  texts: {{{FREE}, path: /texts, topic: {texts}, format: string}}\n"
    )
    with running(path) as ingest:
        url = ingest.url("raw")
        anything = bytes(range(256))
        answer = sent(url, anything, "application/octet-stream", **ORIGINS)
        assert (answer.status, answer.body) == (200, {"accepted": 1, "origins": [f"{raw}/0/0"]})
        assert sent(url, b"[1]\n[2]", "text/plain; charset=latin-1") == 200
        assert sent(url, gzip.compress(b"small"), "application/octet-stream", content_encoding="gzip") == 200
        assert sent(url, b"", "application/octet-stream") == 400
        assert [sent(url, b"{}", kind).status for kind in ("application/json", None)] == [415, 415]
        url = ingest.url("texts")
        assert sent(url, "grüezi", "text/plain") == 200
        answer = sent(url, b"ab\xff", "text/plain")
        assert (answer.status, answer.body["errors"]) == (
            422,
            [{"index": 0, "field": None, "reason": "is not UTF-8 text: byte 2"}],
        )
    assert values(cluster, raw) == sorted([anything, b"[1]\n[2]", b"small"])
    assert values(cluster, texts) == ["grüezi".encode()]


def test_a_bare_avro_body_must_be_one_whole_record_of_the_schema(config, cluster, new_topic):
    topic = new_topic()
    path = config(
        f"ingest:\n  plans: {{{FREE}, path: /p, topic: {topic}, format: avro, schema: '{json.dumps(SCHEMA)}'}}\n"
    )
    record = written(SCHEMA, {"plan": "gold", "rps": 7})
    with running(path) as ingest:
        url = ingest.url("plans")
        assert sent(url, record, "avro/binary") == 200
        for wrong in (record + b"\0", record[:-1], b"\xff" * 20):
            assert sent(url, wrong, "application/octet-stream") == 422
        assert sent(url, "{}", "application/json") == 415
    assert values(cluster, topic) == [record]


@pytest.fixture(scope="module")
def registry():
    with temporary_stack(("registry",), quiet=True) as addresses:
        assert addresses.registry_url is not None
        yield addresses.registry_url


def register(url, subject, schema):
    address = urlsplit(url)
    with closing(http.client.HTTPConnection(address.netloc, timeout=GUARD_S)) as connection:
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        body = json.dumps({"schema": json.dumps(schema)})
        connection.request("POST", f"{address.path}/subjects/{subject}/versions", body, headers)
        return json.loads(connection.getresponse().read())["id"]


def test_a_framed_avro_body_must_name_a_schema_that_the_registry_has(registry, stack, tmp_path, cluster, new_topic):
    topic = new_topic()
    entry = f"{FREE}, topic: {topic}, format: avro"
    path = write_config(
        tmp_path / "pipeline.yaml",
        f"{stack.bootstrap_servers}', registry: {{url: '{registry}'}}}}  # '",
        f"ingest:\n  plans: {{{entry}, path: /p}}\n",
    )
    good = framed(register(registry, "ingest-value", SCHEMA), written(SCHEMA, {"plan": "gold", "rps": 7}))
    with running(path) as ingest:
        url = ingest.url("plans")
        assert [sent(url, good, "avro/binary").status for _ in range(3)] == [200] * 3
        for _ in range(2):
            answer = sent(url, framed(987654, b""), "avro/binary")
            assert (answer.status, "987654" in answer.body["detail"]) == (422, True)
        assert sent(url, good + b"\0", "avro/binary") == 422
        assert [sent(url, wrong, "avro/binary").status for wrong in (good[1:], b"\0\0")] == [422, 422]
    assert values(cluster, topic) == [good] * 3


def test_without_its_registry_a_schema_that_is_not_known_yet_is_503_and_nothing_is_written(
    stack, tmp_path, cluster, new_topic
):
    topic = new_topic()
    path = write_config(
        tmp_path / "pipeline.yaml",
        f"{stack.bootstrap_servers}', registry: {{url: 'http://127.0.0.1:1'}}}}  # '",
        f"ingest:\n  plans: {{{FREE}, path: /p, topic: {topic}, format: avro, deadline: 1s}}\n",
    )
    with running(path) as ingest:
        answer = sent(ingest.url("plans"), framed(1, b""), "avro/binary")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "nothing was written" in answer.body["detail"]
    assert values(cluster, topic) == []


def test_bad_events_become_dead_letters_where_that_is_wanted_and_the_others_are_written(config, cluster, new_topic):
    topic, dlq = new_topic(), new_topic(partitions=2)
    path = config(
        f"ingest:\n  plays: {{{FREE}, path: /p, topic: {topic}, format: json, key: id, invalid: dlq, dlq: {dlq}}}\n"
    )
    good, bad = ['{"id": "a"}', '{"id": "d"}'], ['{"no": "id"}', "[7]"]
    with running(path) as ingest:
        url = ingest.url("plays")
        answer = sent(url, "\n".join([good[0], *bad, good[1]]), "application/x-ndjson", **ORIGINS)
        assert (answer.status, answer.body["accepted"], answer.body["dead"]) == (200, 2, 2)
        assert [(error["index"], error["field"]) for error in answer.body["errors"]] == [(1, "id"), (2, None)]
        assert answer.body["origins"] == [f"{topic}/0/0", None, None, f"{topic}/0/1"]
        assert sent(url, "[1]").body["accepted"] == 0
        assert sent(url, "{") == 400, "a body that cannot be read has no events that could be kept"
        wait_until(lambda: ingest.entry("plays")["counters"]["dead_letters"] == 3, what="the count")
        assert ingest.metric("enrich_ingest_dead_letters_total", ingest="plays") == 3
    assert values(cluster, topic) == [event.encode() for event in good]
    letters = {message.value(): message for message in cluster.messages(dlq)}
    assert sorted(letters) == sorted([b"1", *(event.encode() for event in bad)])
    letter = letters[bad[0].encode()]
    assert dict(letter.headers()) == {
        "enrich.reason": b"id: is missing",
        "enrich.stage": b"plays",
        "enrich.topic": topic.encode(),
        "enrich.length": str(len(bad[0])).encode(),
        "enrich.sha256": hashlib.sha256(bad[0].encode()).hexdigest().encode(),
    }
    start, request, index = letter.key().decode().split("/")
    assert (start, index) == ("test.ingest.plays", "1")
    assert {message.key().decode().split("/")[1] for message in letters.values()} > {request}, "one name a request"


def test_a_request_whose_dead_letters_cannot_be_written_is_not_acknowledged(config, cluster, new_topic):
    topic, dlq = new_topic(), new_topic()
    path = config(
        f"ingest:\n  plays: {{{FREE}, path: /p, topic: {topic}, format: json, deadline: 1s, invalid: dlq, dlq: {dlq}}}"
    )
    with running(path) as ingest:
        url = ingest.url("plays")
        assert sent(url, "[1, {}]") == 200
        cluster.topics.delete(dlq)
        assert sent(url, "{}") == 200
        assert sent(url, "[1, {}]") == 503
        wait_until(lambda: dlq in ingest.not_ready().get("plays", ""), what="the reason")


def test_an_event_that_the_topic_would_not_take_is_named_before_anything_is_written(config, cluster, new_topic):
    topic = new_topic(max_message_bytes="20000")
    path = config(f"ingest:\n  plays: {{{FREE}, path: /p, topic: {topic}, format: json}}\n")
    large = json.dumps({"text": "x" * 20_000})
    with running(path) as ingest:
        url = ingest.url("plays")
        answer = sent(url, f"[{{}}, {large}]")
        assert (answer.status, [error["index"] for error in answer.body["errors"]]) == (422, [1])
        many = [json.dumps({"text": f"{number}" + "x" * 500}) for number in range(900)]
        assert sent(url, f"[{','.join(many)}]") == 200, "many together are more than the topic takes in one record"
    assert values(cluster, topic) == sorted(event.encode() for event in many)


def test_an_event_may_be_as_large_as_its_topic_takes(config, cluster, new_topic):
    topic = new_topic(max_message_bytes="3000000")
    path = config(
        f"ingest:\n  raw: {{{FREE}, path: /p, topic: {topic}, format: bytes, max_body: 4MiB, max_inflated: 8MiB}}\n"
    )
    with running(path) as ingest:
        url = ingest.url("raw")
        assert sent(url, b"x" * 2_900_000, "text/plain") == 200
        assert sent(url, b"x" * 3_000_000, "text/plain") == 422
    assert list(map(len, values(cluster, topic))) == [2_900_000]
