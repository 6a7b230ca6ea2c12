"""What each kind of field refuses, in the words of the file and never of the parser."""

from typing import Any

import pytest

from tests.unit.config.helpers import ABSENT, AVRO, LOOKUP, RECORD, changed, told

NAME = "expected a name of at most 63 letters, digits, _ and - that starts with a letter or digit"
TOPIC = "expected a topic name of at most 249 letters, digits, . _ and -"
MAPPING = "expected a mapping (`key: value` pairs)"
ADDRESS = "expected an address without a port, such as 0.0.0.0 or ::"
SERVERS = "expected servers such as host:9092, separated by commas"

REFUSED: list[tuple[str, Any, str]] = [
    ("name", "../plays", f"{NAME}, got ../plays"),
    ("name", ".", f"{NAME}, got ."),
    ("name", 5, f"{NAME}, got the number 5"),
    ("name", "two words", f"{NAME}, got “two words”"),
    ("name", "x" * 64, f"{NAME}, got {'x' * 59}…"),
    ("name", "bell\a\n", f"{NAME}, got bell\\u0007\\n"),
    ("kafka", "localhost:9092", f"{MAPPING}, got localhost:9092"),
    ("tables", ["users"], f"{MAPPING}, got a list"),
    ("tables.users", None, f"{MAPPING}, got nothing"),
    ("stages.enrich.lookups", {"table": "users"}, "expected a list (`- item` or `[item, item]`), got a mapping"),
    ("kafka.bootstrap_servers", "localhost", f"{SERVERS}, got localhost"),
    ("kafka.bootstrap_servers", ["a:1", "b:99999"], f"{SERVERS}, got b:99999"),
    ("kafka.bootstrap_servers", "a:1,,b:1", f"{SERVERS}, got an empty text"),
    ("agent.metrics_address", "0.0.0.0:9404", f"{ADDRESS}, got 0.0.0.0:9404"),
    ("agent.metrics_address", "[::]:9404", f"{ADDRESS}, got [::]:9404"),
    ("stages.enrich.metrics_address", "", f"{ADDRESS}, got an empty text"),
    ("kafka.bootstrap_servers", "::1:9092", f"{SERVERS}, got ::1:9092; an IPv6 address stands in brackets"),
    ("kafka.bootstrap_servers", [], "expected servers such as host:9092, got an empty list"),
    ("kafka.bootstrap_servers", 9092, "expected text, got the number 9092: put it in quotes"),
    ("kafka.registry.url", "registry:8081", "expected an address such as https://host:8081"),
    ("tables.limits.loader.redis", "localhost:6379", "expected an address such as redis://host:6379/0"),
    ("tables.users.topic", "a/b", f"{TOPIC}, got a/b"),
    ("tables.users.topic", "..", f"{TOPIC}, got .."),
    ("tables.users.history", "5x", "expected a duration such as 30s, 5m or 1h, got 5x"),
    ("tables.users.history", 30, "expected a duration such as 30s, 5m or 1h, got the number 30"),
    ("tables.users.history", "1.5h", "expected a duration such as 30s, 5m or 1h, got 1.5h"),
    ("tables.users.history", "-1h", "expected a duration such as 30s, 5m or 1h, got -1h"),
    ("tables.users.history", None, "expected a duration such as 30s, 5m or 1h, got nothing"),
    ("tables.users.history", False, "expected a duration such as 30s, 5m or 1h, got false"),
    ("tables.users.history", "99999999d", "expected at most 36500d, got 99999999d"),
    ("memory.budget", 1024, "expected a size such as 512MiB or 2GiB, got the number 1024"),
    ("memory.budget", "2G", "expected a size such as 512MiB or 2GiB, got 2G"),
    ("memory.budget", "9999999TiB", "expected at most 1048576TiB, got 9999999TiB"),
    ("memory.max_readers", 0, "expected a whole number from 1 to 1024, got the number 0"),
    ("memory.max_readers", "8", "expected a whole number, got 8"),
    ("memory.max_readers", 1.5, "expected a whole number, got the number 1.5"),
    ("memory.max_readers", True, "expected a whole number, got true"),
    ("stages.enrich.lineage", "yes", "expected true or false, got yes"),
    ("stages.enrich.lineage", 1, "expected true or false, got the number 1"),
    ("tables.users.format", "JSON", "expected json, avro, bytes or string, got JSON; did you mean json?"),
    ("tables.users.format", "xml", "expected json, avro, bytes or string, got xml"),
    ("tables.users.format", ["json"], "expected json, avro, bytes or string, got a list"),
    (f"{LOOKUP}.on_miss", "Null", "expected null, default, drop, dlq, wait or fail, got Null; did you mean null?"),
    (f"{LOOKUP}.as", "a b", "expected a name of letters, digits and _, got “a b”"),
    (f"{LOOKUP}.as", "1st", "expected a name of letters, digits and _, got 1st"),
    (f"{LOOKUP}.key", [], "expected an expression such as user_id, or a list of them, got an empty list"),
    (f"{LOOKUP}.key", ["user_id", 5], "expected text, got the number 5: put it in quotes"),
    (f"{LOOKUP}.select", "plan", "expected a list of names such as [plan, region], got plan"),
    (f"{LOOKUP}.select", ["plan", "plan"], "plan occurs twice"),
    ("stages.enrich.event_time", True, "expected text, got true: put it in quotes"),
    ("stages.enrich.event_time", " ", "expected text, got an empty text"),
    ("state_dir", "s3://bucket/state", "expected a path of the local file system, got s3://bucket/state"),
    ("stages.enrich.sink.format", "avro", "expected json, got avro"),
    (
        "tables.users.columns",
        "plan strng",
        "unknown type strng at character 6 of “plan strng”; did you mean string?",
    ),
    ("tables.users.columns", 5, 'expected columns such as "plan string, rps int", got the number 5'),
    ("tables.users.schema", "a int", "only for format: avro, and the format is json"),
    ("kafka/client/linger.ms", "5ms", "expected a whole number, got 5ms"),
    ("kafka/client/linger.ms", 900_001, "expected a whole number from 0 to 900000, got the number 900001"),
    ("kafka/client/compression.type", "lz5", "expected none, gzip, snappy, lz4 or zstd, got lz5; did you mean lz4?"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "message"), REFUSED)
def test_a_wrong_value_is_told_in_the_files_words(path: str, value: Any, message: str) -> None:
    key = path.replace("/", ".").replace("lookups.0", "lookups[0]")
    assert told(changed((path, value))) == [f"{key}: {message}"]


MISSING = [
    ("name", "name: missing: Name of the pipeline; part of the names of "
     "directories, topics and consumer groups."),
    ("kafka.bootstrap_servers", "kafka.bootstrap_servers: missing: The brokers to contact first, as `host:port`, "
     "separated by commas or as a list."),
    ("stages.enrich.sink.topic", "stages.enrich.sink.topic: missing: The topic that the enriched events go to."),
    ("tables.users.columns", "tables.users.columns: missing: The columns of a row, as Spark writes them. "
     "Fields that are not named here are ignored. "
     "Default: for `bytes` and `string` one column of that type, `value`; else required."),
]  # fmt: skip


@pytest.mark.parametrize(("path", "problem"), MISSING)
def test_a_missing_key_is_told_with_its_meaning(path: str, problem: str) -> None:
    assert told(changed((path, ABSENT))) == [problem]


UNKNOWN = [
    ("kafka.securty", "did you mean security?"),
    ("tables.users.Topic", "did you mean topic?"),
    ("memory.x", "valid keys: budget, max_readers"),
    ("stages.enrich.sink.fromat", "did you mean format?"),
    ("kafka/client/liner.ms", "did you mean linger.ms?"),
]


@pytest.mark.parametrize(("path", "hint"), UNKNOWN)
def test_an_unknown_key_is_told_with_the_nearest_or_all(path: str, hint: str) -> None:
    assert told(changed((path, "x"))) == [f"{path.replace('/', '.')}: unknown key; {hint}"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("acks", "refused: records that are not acknowledged by all replicas can be lost"),
        ("enable.idempotence", "refused: retries would write records twice"),
        ("isolation.level", "refused: records of transactions that were aborted would be read"),
        ("partitioner", "refused: keys would go to other partitions than with Java and Spark"),
        ("group.id", "refused: enrich names its consumer groups itself"),
        ("sasl.jaas.config", "refused: it belongs in kafka.security, which speaks to both kinds of client"),
        ("ssl.truststore.location", "refused: it belongs in kafka.security, which speaks to both kinds of client"),
        ("queue.buffering.max.kbytes", "this is librdkafka's name; write buffer.memory"),
    ],
)
def test_a_client_setting_that_breaks_a_guarantee_is_refused_with_the_reason(setting: str, message: str) -> None:
    assert told(changed((f"kafka/client/{setting}", "x"))) == [f"kafka.client.{setting}: {message}"]


AVRO_REFUSED = [
    ("{", "not an Avro schema: no JSON (Expecting property name enclosed in double quotes)"),
    ('"string"', RECORD),
    ('{"type": "record", "name": "r", "fields": [{"name": "a", "type": "strng"}]}',
     "not an Avro schema: unknown type strng"),
    ('{"type": "record", "name": "r"}', RECORD),
    ('{"type": "record", "name": "r", "fields": [{}]}', "not an Avro schema: Record field is missing 'name': {}"),
    ("[" * 5000 + "]" * 5000, "not an Avro schema: nested too deeply"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "message"), AVRO_REFUSED)
def test_an_inline_schema_must_be_avro(schema: str, message: str) -> None:
    found = told(changed(("tables.users.format", "avro"), ("tables.users.schema", schema)))
    assert found == [f"tables.users.schema: {message}"]


def test_a_whole_number_may_be_the_default_of_a_double_whose_type_is_an_object() -> None:
    field = '{"name": "price", "type": {"type": "double", "unit": "EUR"}, "default": 0}'
    schema = f'{{"type": "record", "name": "r", "fields": [{field}]}}'
    assert told(changed(("tables.users.format", "avro"), ("tables.users.schema", schema))) == []
    wrong = told(changed(("tables.users.format", "avro"), ("tables.users.schema", schema.replace("0}", "true}"))))
    assert wrong == ["tables.users.schema: not an Avro schema: Default value <True> must match schema type: double"]


def test_an_avro_table_may_have_its_schema_inline() -> None:
    assert told(changed(("tables.users.format", "avro"), ("tables.users.schema", AVRO))) == []


@pytest.mark.parametrize("address", ["0.0.0.0", "localhost", "::", "[::]", "::1", "[fd00::2]", "::ffff:127.0.0.1"])  # noqa: S104
def test_an_address_without_a_port_is_taken(address: str) -> None:
    assert told(changed(("agent.metrics_address", address))) == []
