"""What the sections `ingest` and `expel` refuse."""

from typing import Any

import pytest

from enrich.config import per_second, retry_in_topics, retry_out_topic
from tests.unit.config.helpers import changed, load_data, refused, told

INGEST: dict[str, Any] = {"path": "/v1/plays", "topic": "plays.in", "format": "json"}
EXPEL: dict[str, Any] = {"topic": "plays.acme", "to": {"http": {"url": "https://hooks.example.com/plays"}}}
IN, OUT, HTTP = "ingest.plays", "expel.acme", "expel.acme.to.http"


def edges(*changes: tuple[str, Any]) -> dict[str, Any]:
    return changed((IN, dict(INGEST)), (OUT, {**EXPEL, "to": {"http": dict(EXPEL["to"]["http"])}}), *changes)


def test_the_least_is_enough() -> None:
    pipeline = load_data(edges())
    assert pipeline.ingest["plays"].dlq == "plays.plays.dlq"
    route = pipeline.expel["acme"]
    assert route.dlq == "plays.acme.dlq"
    topics = [topic for topic, _ in retry_in_topics(pipeline.name, "acme", route.retries)]
    assert topics == ["plays.acme.retry_in.30s", "plays.acme.retry_in.5m", "plays.acme.retry_in.1h"]
    assert retry_out_topic(pipeline.name, "acme") == "plays.acme.retry_out"


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    refused(
        [
            (
                "two at one path",
                [("ingest.other", INGEST)],
                "ingest.other.path",
                "/v1/plays on 127.0.0.1:8080 is also the path of plays",
            ),
            (
                "one address, two numbers of processes",
                [("ingest.other", {**INGEST, "path": "/v1/ads", "processes": 2})],
                "ingest.other.processes",
                "plays listens on the same address with another value",
            ),
            (
                "a key in bytes",
                [(f"{IN}.format", "bytes"), (f"{IN}.key", "id")],
                f"{IN}.key",
                "only for format: json, and the format is bytes: the body is not looked into",
            ),
            (
                "tokens and tenants",
                [(f"{IN}.tokens", ["a"]), (f"{IN}.tenants", "users")],
                f"{IN}.tenants",
                "give tokens or tenants, not both",
            ),
            (
                "no such table",
                [(f"{IN}.tenants", "user")],
                f"{IN}.tenants",
                "there is no table user; did you mean users?",
            ),
            (
                "topics of tenants",
                [(f"{IN}.tenants", "limits"), ("tables.limits.columns", "topics array<int>, events_per_s bigint")],
                "tables.limits.columns",
                "topics of tenants must be array<string> or string, and is array<int>",
            ),
            (
                "networks as tenants",
                [(f"{IN}.tenants", "networks")],
                "tables.networks.key",
                "tenants are found by exact keys",
            ),
            (
                "tenants on demand",
                [
                    (f"{IN}.tenants", "limits"),
                    ("tables.limits", {"loader": {"http": "http://h/{key}"}, "on_demand": True, "columns": "a int"}),
                ],
                "tables.limits.on_demand",
                "tenants need the whole table: the first request of each would be refused",
            ),
            (
                "rates of tenants",
                [(f"{IN}.tenants", "limits"), ("tables.limits.columns", "name string, bytes_per_s string")],
                "tables.limits.columns",
                "bytes_per_s of tenants must be tinyint, smallint, int, bigint, float or double, and is string",
            ),
            (
                "a table's topic",
                [(f"{IN}.topic", "users.v1")],
                f"{IN}.topic",
                "users.v1 is the topic of the table users: events would become its rows",
            ),
            (
                "no room for one",
                [(f"{IN}.in_flight", "1KiB")],
                f"{IN}.in_flight",
                "must be at least max_body: the largest request would never have room",
            ),
            ("no time", [(f"{IN}.deadline", "10ms")], f"{IN}.deadline", "must be between 100ms and 5m"),
            (
                "dead letters into the events",
                [(f"{IN}.invalid", "dlq"), (f"{IN}.dlq", "plays.in")],
                f"{IN}.dlq",
                "plays.in is also the topic of the events: dead letters would be events again",
            ),
            (
                "dead letters in a circle",
                [
                    (f"{OUT}.dlq", "plays.other"),
                    ("expel.other", {**EXPEL, "topic": "plays.other", "dlq": "plays.acme"}),
                ],
                f"{OUT}.dlq",
                "the routes acme -> other -> acme deliver each other's dead letters: what no endpoint takes would go "
                "round for ever",
            ),
            ("half a certificate", [(f"{HTTP}.cert_file", "/c.pem")], f"{HTTP}.cert_file", "needs key_file"),
            (
                "authorities without TLS",
                [(f"{HTTP}.url", "http://h"), (f"{HTTP}.ca_file", "/c.pem")],
                f"{HTTP}.ca_file",
                "only with an https address",
            ),
            (
                "many single ones",
                [(f"{HTTP}.format", "single"), (f"{OUT}.batch", {"events": 10})],
                f"{OUT}.batch.events",
                "with format: single a request has one event",
            ),
            (
                "halved and retried",
                [(f"{OUT}.retry_statuses", [413])],
                f"{OUT}.retry_statuses",
                "413 is also one of split: a batch is retried or halved, not both",
            ),
            (
                "a pause twice",
                [(f"{OUT}.retries", ["1m", "60s"])],
                f"{OUT}.retries",
                "1m occurs twice: each pause has a topic of its own",
            ),
            (
                "dead letters round and round",
                [(f"{OUT}.dlq", "plays.acme.retry_out")],
                f"{OUT}.dlq",
                "plays.acme.retry_out is a retry topic of the route acme: events would go round",
            ),
            (
                "a rate without a unit",
                [(f"{OUT}.rate", 5)],
                f"{OUT}.rate",
                "expected a rate such as 1000/s or 60/m, got the number 5",
            ),
            (
                "a status that is no refusal",
                [(f"{OUT}.split", [500])],
                f"{OUT}.split",
                "expected statuses from 400 to 499, got 500",
            ),
        ]
    ),
)
def test_what_cannot_work_is_refused(changes: list[tuple[str, Any]], key: str, message: str) -> None:
    assert told(edges(*changes)) == [f"{key}: {message}"]


def test_a_secret_may_be_one_or_several() -> None:
    first, second = "whsec_" + "A" * 32, "whsec_" + "QUJD" * 8
    one = load_data(edges((f"{HTTP}.secret", first))).expel["acme"].to.http.secret
    two = load_data(edges((f"{HTTP}.secret", [first, second]))).expel["acme"].to.http.secret
    assert one is not None and [secret.get_secret_value() for secret in one] == [first]
    assert two is not None and [secret.get_secret_value() for secret in two] == [first, second]
    assert "whsec" not in str(two)


@pytest.mark.parametrize("secret", ["whsec_short", "foo", "whsec_" + "A" * 200, "whsec_" + "%" * 32])
def test_a_secret_that_is_none_is_refused_and_not_shown(secret: str) -> None:
    for secrets in secret, ["whsec_" + "A" * 32, secret]:
        (problem,) = told(edges((f"{HTTP}.secret", secrets)))
        assert problem == "expel.acme.to.http.secret: expected whsec_ and the base64 of 24 to 64 random bytes"


def test_rates_are_read() -> None:
    assert [per_second(rate) for rate in ("1000/s", "60/m", "36/h")] == [1000, 1, 0.01]
