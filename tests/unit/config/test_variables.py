"""`${VAR}` in values: replaced after parsing, for fields of every type, and never shown where it might be a secret."""

import pytest

from enrich.config import load_text
from tests.unit.config.helpers import HEAD, lines_of


def test_variables_fill_any_scalar_also_numbers_and_choices() -> None:
    text = (
        "name: ${NAME}\nkafka: {bootstrap_servers: '${HOST}:${PORT:-9092}', client: {linger.ms: '${LINGER}'}}\n"
        "memory:\n  budget: ${BUDGET:-1GiB}\n  max_readers: ${READERS}\n"
        "tables: {a: {topic: a, format: string, access: '${ACCESS}', history: '${HISTORY:-0}'}}\n"
        "stages: {s: {source: {topic: s, format: string}, sink: {topic: t}, lineage: '${LINEAGE}',\n"
        "  lookups: [{table: a, key: value, as: a, on_miss: '${MISS:-null}'}]}}\n"
    )
    values = {"NAME": "007", "HOST": "h", "LINGER": "5", "READERS": "8", "ACCESS": "rocks", "LINEAGE": "true"}
    pipeline = load_text(text, values)
    assert pipeline.name == "007"
    assert pipeline.kafka.bootstrap_servers == "h:9092"
    assert pipeline.kafka.client.given() == {"linger.ms": 5}
    assert (pipeline.memory.budget, pipeline.memory.max_readers) == (2**30, 8)
    assert pipeline.tables["a"].access == "rocks"
    assert pipeline.stages["s"].lineage is True
    assert pipeline.stages["s"].lookups[0].on_miss == "null"


def test_a_variable_cannot_inject_yaml() -> None:
    text = HEAD + "tables: {a: {topic: '${T}', format: string}, b: {topic: t, format: string, history: '${T}'}}"
    assert lines_of(text, {"T": "x, format: json}\nname: y"}) == [
        "3:21: tables.a.topic: expected a topic name of at most 249 letters, digits, . _ and -, got the value of ${T}",
        "3:85: tables.b.history: expected a duration such as 30s, 5m or 1h, got the value of ${T}",
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a ${UNSET} b", "3:14: state_dir: the environment variable UNSET is not set; set it, or give a default: ${UN"),
        ("'${1}'", "3:13: state_dir: expected ${NAME} or ${NAME:-default} (defaults cannot contain braces; a literal"),
        ("${OPEN", "3:12: state_dir: expected ${NAME} or ${NAME:-default} (defaults cannot contain braces; a literal"),
    ],
)
def test_a_variable_that_is_not_there_is_told_with_line_and_name(value: str, message: str) -> None:
    (found,) = lines_of(HEAD + f"state_dir: {value}")
    assert found.startswith(message)


def test_a_reference_that_yaml_cannot_read_is_told_to_need_quotes() -> None:
    (found,) = lines_of(HEAD + "memory: {budget: ${BUDGET}}")
    assert found == (
        "3:19: this is not YAML: expected ',' or '}', but got '{' while parsing a flow mapping; "
        "inside { } or [ ] a value with ${...} needs quotes"
    )


def test_a_literal_reference_is_written_with_two_dollars() -> None:
    pipeline = load_text(HEAD + "state_dir: /a/$${HOME}/$HOME", {"HOME": "no"})
    assert pipeline.state_dir == "/a/${HOME}/$HOME"


def test_keys_are_not_replaced() -> None:
    assert lines_of(HEAD + "${K}: 1", {"K": "tables"})[0].startswith("3:1: ${K}: unknown key")


def test_the_environment_is_this_process_s_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENRICH_TEST_NAME", "fromhere")
    assert load_text("name: ${ENRICH_TEST_NAME}\nkafka: {bootstrap_servers: 'a:1'}").name == "fromhere"
