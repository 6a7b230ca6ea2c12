"""From a file's text to data: every key and value keeps its place, and every problem is told there."""

import pytest

from enrich.config import ConfigProblems, load_text
from tests.unit.config.helpers import HEAD, lines_of

SCREEN = """\
name: plays
kafka:
  bootstrap_server: localhost:9092
  security: {protocol: SASL_SLS, username: bob, password: "${NOPE}"}
memory: {budget: 5x, max_readers: "${READERS}"}
tables:
  users:
    topic: users.v1
    format: json
    columns: >-
      plan string,
      region strng
    histroy: 1h
  limits:
    topic: limits.v1
    format: json
    columns: "rps int, limits struct<a:int,b:flaot>"
    topic: limits.v2
stages:
  enrich:
    source: {topic: plays.raw, format: json, schema: user_id string}
    lookups:
      - table: limit
        key: user_id
        as: limit
      - {table: limits, key: userid, as: limit, on_miss: dead}
    sink: plays.enriched
"""

SCREEN_TOLD = """\
3:3: kafka.bootstrap_server: unknown key; did you mean bootstrap_servers?
4:24: kafka.security.protocol: expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, got SASL_SLS; did you mean SASL_SSL?
4:60: kafka.security.password: the environment variable NOPE is not set; set it, or give a default: ${NOPE:-...}
5:18: memory.budget: expected a size such as 512MiB or 2GiB, got 5x
5:35: memory.max_readers: expected a whole number, got the value of ${READERS}
10:14: tables.users.columns: unknown type strng at character 21 of “plan string, region strng”; did you mean string?
13:5: tables.users.histroy: unknown key; did you mean history?
17:46: tables.limits.columns: unknown type flaot at character 32 of “rps int, limits struct<a:int,b:flaot>”; did you \
mean float?
18:5: tables.limits.topic: duplicate key: on line 15 and on line 18
23:16: stages.enrich.lookups[0].table: there is no table limit; did you mean limits?
26:30: stages.enrich.lookups[1].key: the source has no field userid; did you mean user_id?
26:42: stages.enrich.lookups[1].as: limit is also the name of lookup 1 of this stage
26:58: stages.enrich.lookups[1].on_miss: expected null, default, drop, dlq, wait or fail, got dead
27:11: stages.enrich.sink: expected a mapping (`key: value` pairs), got plays.enriched
"""


def test_all_problems_of_a_file_are_told_at_once_in_its_order() -> None:
    assert lines_of(SCREEN, {"READERS": "many"}) == SCREEN_TOLD.splitlines()


def test_one_error_carries_all_problems_and_prints_well() -> None:
    with pytest.raises(ConfigProblems) as raised:
        load_text("name: [\n", {}, "a.yaml")
    assert str(raised.value).startswith("a.yaml:2:1: this is not YAML: ")
    with pytest.raises(ConfigProblems) as raised:
        load_text("name: a b\n", {}, "a.yaml")
    assert str(raised.value).splitlines()[0] == "a.yaml has 2 problems"
    assert str(raised.value).splitlines()[1].startswith("  a.yaml:1: kafka: missing")
    assert raised.value.problems[1].as_json() == {
        "file": "a.yaml",
        "line": 1,
        "column": 7,
        "key": "name",
        "message": "expected a name of at most 63 letters, digits, _ and - that starts with a letter or digit, "
        "got “a b”",
    }


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_are_right_with_any_end_of_line(newline: str) -> None:
    text = newline.join(["name: plays", "# remark", "kafka:", "  bootstrap_servers: nowhere"])
    assert lines_of(text)[0].startswith("4:22: kafka.bootstrap_servers: ")


def test_the_words_of_yaml_1_2_mean_what_they_say() -> None:
    columns = '"on boolean, off string"'
    pipeline = load_text(HEAD + f"tables: {{on: {{topic: 'no', format: json, columns: {columns}, access: rocks}}}}", {})
    assert list(pipeline.tables) == ["on"]


def test_anchors_and_merge_keys_spare_repetition() -> None:
    first = "tables:\n  a: &a {topic: a, format: string, history: 1h}\n"
    others = "  b: {<<: *a, topic: b}\n  c: {<<: [*a], topic: c}\n"
    tables = load_text(HEAD + first + others, {}).tables.values()
    assert [(table.topic, table.history.seconds) for table in tables] == [("a", 3600), ("b", 3600), ("c", 3600)]


def test_a_problem_in_a_merged_mapping_is_told_where_it_was_written() -> None:
    tables = "tables:\n  a: &a {topic: a, format: strin}\n  b: {<<: *a, topic: b}\n"
    assert [line.split(": expected")[0] for line in lines_of(HEAD + tables)] == [
        "4:28: tables.a.format",
        "4:28: tables.b.format",
    ]
