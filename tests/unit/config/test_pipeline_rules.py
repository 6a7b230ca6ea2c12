"""Every rule across the pipeline, and for kafka and memory: what it refuses, at which key, with which words."""

import pytest

from tests.unit.config.helpers import ABSENT, Changes, Refused, changed, refused, told

ROUTE = {"topic": "plays.enriched", "to": {"http": {"url": "https://example.org"}}}
ENTRY = {"path": "/plays", "topic": "plays.raw", "format": "json"}

REFUSED: list[Refused] = [
    (
        "a port is one that there is",
        [("sync.listen", "127.0.0.1:99999")],
        "sync.listen",
        "expected an address such as 127.0.0.1:9400 or [::1]:9400, got 127.0.0.1:99999",
    ),
    # topics and directories
    *[
        (f"{key} is not the source", [(f"stages.enrich.{key}", value)], f"stages.enrich.{key}", message)
        for key, value, message in (
            ("dlq", "plays.raw", "plays.raw is also the topic of the source: the stage would read what it writes"),
            (
                "dlq",
                "plays.enriched",
                "plays.enriched is also the topic of the sink: it would hold two kinds of record",
            ),
            (
                "sink.topic",
                "plays.raw",
                "plays.raw is also the topic of the source: the stage would read what it writes",
            ),
        )
    ],
    (
        "write-backs have a topic of their own",
        [("stages.enrich.writeback", {"topic": "plays.dlq", "value": "1"})],
        "stages.enrich.writeback.topic",
        "plays.dlq is also the topic of the dlq: it would hold two kinds of record",
    ),
    (
        "dead letters are no rows",
        [("stages.enrich.dlq", "users.v1")],
        "stages.enrich.dlq",
        "users.v1 is the topic of the table users: dead letters would become its rows",
    ),
    *[
        (
            f"{topic} is the pipeline's own, and not for what {key} is for",
            [("observe", {}), ("expel.acme", {**ROUTE}), *more, (key, topic)],
            key,
            f"{topic} is {what}: choose another name",
        )
        for topic, what, key, more in (
            ("plays.ratings", "the topic of ratings", "stages.enrich.sink.topic", []),
            ("plays.minutes", "the topic of the observer's verdicts", "tables.users.topic", []),
            ("plays.tallies", "the topic of tallies", "ingest.raw.topic", [("ingest.raw", {**ENTRY})]),
            ("plays.holds", "the topic of routes that are on hold", "expel.acme.dlq", []),
            ("plays.acme.retry_out", "where events of the expel route acme wait", "stages.enrich.dlq", []),
        )
    ],
    (
        "stages do not feed each other",
        [
            (
                "stages.back",
                {
                    "source": {"topic": "plays.enriched", "format": "string"},
                    "sink": {"topic": "plays.raw"},
                },
            )
        ],
        "stages.enrich.sink.topic",
        "the stages enrich -> back -> enrich feed each other: events would go round for ever",
    ),
    (
        "a checkpoint outlives state_dir",
        [("state_dir", "/data"), ("stages.enrich.checkpoint", "/data/x/../y")],
        "stages.enrich.checkpoint",
        "lies inside state_dir, whose contents can be deleted at any time; a checkpoint cannot",
    ),
    (
        "a checkpoint outlives state_dir, as a URI too",
        [("state_dir", "/data"), ("stages.enrich.checkpoint", "file:///data/a%62")],
        "stages.enrich.checkpoint",
        "lies inside state_dir, whose contents can be deleted at any time; a checkpoint cannot",
    ),
    (
        "a checkpoint is one stage's",
        [
            ("stages.enrich.checkpoint", "hdfs://n/c"),
            (
                "stages.more",
                {
                    "source": {"topic": "a", "format": "string"},
                    "sink": {"topic": "b"},
                    "checkpoint": "hdfs://n/c",
                },
            ),
        ],
        "stages.more.checkpoint",
        "the stage enrich has the same one",
    ),
    # kafka and memory
    *[
        (
            f"SASL needs {key}",
            [
                ("kafka.security", {"protocol": "SASL_SSL", "mechanism": "PLAIN", "username": "u", "password": "p"}),
                (f"kafka.security.{key}", ABSENT),
            ],
            f"kafka.security.{key}",
            "needed with protocol SASL_SSL",
        )
        for key in ("mechanism", "username", "password")
    ],
    (
        "a login needs SASL",
        [("kafka.security", {"protocol": "SSL", "username": "u"})],
        "kafka.security.username",
        "only for SASL_PLAINTEXT and SASL_SSL, not for SSL",
    ),
    (
        "certificates need SSL",
        [("kafka.security", {"protocol": "PLAINTEXT", "ca_file": "/ca"})],
        "kafka.security.ca_file",
        "only for SSL and SASL_SSL, not for PLAINTEXT",
    ),
    (
        "a certificate needs its key",
        [("kafka.security", {"protocol": "SSL", "cert_file": "/c"})],
        "kafka.security.cert_file",
        "needs key_file too",
    ),
    (
        "a key needs its certificate",
        [("kafka.registry", {"url": "https://r", "key_file": "/c"})],
        "kafka.registry.key_file",
        "needs cert_file too",
    ),
    (
        "a registry's user needs a password",
        [("kafka.registry", {"url": "https://r", "username": "u"})],
        "kafka.registry.username",
        "needs a password",
    ),
    (
        "a registry's password needs a user",
        [("kafka.registry", {"url": "https://r", "password": "u"})],
        "kafka.registry.password",
        "needs a username",
    ),
    (
        "pauses do not shrink",
        [("kafka/client/reconnect.backoff.ms", 2000)],
        "kafka.client.reconnect.backoff.ms",
        "reconnect.backoff.ms (2000) must not exceed reconnect.backoff.max.ms (1000)",
    ),
    (
        "delivery waits for its parts",
        [("kafka/client/delivery.timeout.ms", 10000)],
        "kafka.client.delivery.timeout.ms",
        "must be at least linger.ms + request.timeout.ms, which is 30005",
    ),
    (
        "a budget feeds its readers",
        [("memory", {"budget": "256MiB", "max_readers": 64})],
        "memory.budget",
        "256MiB is too little: the agent and 64 readers need 2502MiB",
    ),
]


@pytest.mark.parametrize(("changes", "key", "message"), refused(REFUSED))
def test_refuses(changes: Changes, key: str, message: str) -> None:
    assert told(changed(*changes)) == [f"{key}: {message}"]
