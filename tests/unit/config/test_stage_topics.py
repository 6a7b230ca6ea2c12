"""The source of a stage: one topic, a list of them or a pattern, with one schema or one for each topic."""

import re

import pytest

from tests.unit.config.helpers import ABSENT, AVRO, Changes, Refused, changed, load_data, refused, told

SOURCE = "stages.enrich.source"
FIELDS = "user_id string, ip string, ts timestamp"
SEVERAL = {"topics": ["plays", "ads"], "format": "json", "schema": FIELDS}
EACH = {"plays": FIELDS, "ads": "user_id string, ad int NOT NULL"}


def several(**changes):
    return {key: value for key, value in {**SEVERAL, **changes}.items() if value is not ABSENT}


def pattern(text, **changes):
    return several(topics=ABSENT, topic_pattern=text, **changes)


def each(**schemas):
    return several(schema=ABSENT, schemas={**EACH, **schemas})


REFUSED: list[Refused] = [
    (
        "a source has topics",
        [(SOURCE, several(topics=ABSENT))],
        f"{SOURCE}.topic",
        "missing: The topic that the events come from, or `topics`.",
    ),
    (
        "it has them in one way",
        [(SOURCE, several(topic="plays"))],
        f"{SOURCE}.topics",
        "not beside `topic`: give one of them",
    ),
    (
        "a list of topics has each once",
        [(SOURCE, several(topics=["a", "b", "a"]))],
        f"{SOURCE}.topics",
        "a occurs twice",
    ),
    (
        "a list is not empty",
        [(SOURCE, several(topics=[]))],
        f"{SOURCE}.topics",
        "expected a list of topics such as [plays, ads], got nothing",
    ),
    (
        "a list is not a text",
        [(SOURCE, several(topics="a,b"))],
        f"{SOURCE}.topics",
        "expected a list of topics such as [plays, ads], got a,b",
    ),
    (
        "the topics have good names",
        [(SOURCE, several(topics=["a", "b c"]))],
        f"{SOURCE}.topics",
        "expected topic names of at most 249 letters, digits, . _ and -, got “b c”",
    ),
    (
        "each topic of the list is another one than the outputs",
        [(SOURCE, several(topics=["plays", "plays.enriched"]))],
        "stages.enrich.sink.topic",
        "plays.enriched is also the topic of the source: the stage would read what it writes",
    ),
    (
        "no output matches the pattern",
        [(SOURCE, pattern("plays.en.*"))],
        "stages.enrich.sink.topic",
        "plays.enriched is one of the topics plays.en.* of the source: the stage would read what it writes",
    ),
    (
        "schemas are of topics that there are",
        [(SOURCE, each(adds="ad int"))],
        f"{SOURCE}.schemas.adds",
        "the source has no topic adds; did you mean ads?",
    ),
    (
        "each topic has a schema",
        [(SOURCE, {**each(), "topics": ["plays", "ads", "more"]})],
        f"{SOURCE}.schemas",
        "missing: the fields of the topic more",
    ),
    (
        "a field has one type",
        [(SOURCE, each(ads="user_id bigint"))],
        f"{SOURCE}.schemas.ads",
        "user_id is bigint here and string in plays",
    ),
    (
        "a field has one name",
        [(SOURCE, each(ads="User_ID string"))],
        f"{SOURCE}.schemas.ads",
        "user_id and User_ID differ in case only",
    ),
    (
        "there is one schema or one of each topic",
        [(SOURCE, {**each(), "schema": FIELDS})],
        f"{SOURCE}.schemas",
        "not beside `schema`, which is for all topics",
    ),
    (
        "a pattern has one schema",
        [(SOURCE, {**each(), "topics": None, "topic_pattern": "p.*s"})],
        f"{SOURCE}.schemas",
        "not with a pattern, whose topics are not known: give one `schema` for all",
    ),
    (
        "avro has one schema for a pattern",
        [(SOURCE, {"topic_pattern": "a|b", "format": "avro"}), ("kafka.registry.url", "http://r")],
        f"{SOURCE}.schema",
        "needed with a pattern: the schema that all events are read as, since the topics are not known",
    ),
    (
        "schemas are for json",
        [
            (SOURCE, {"topics": ["a", "b"], "format": "avro", "schema": AVRO, "schemas": {"a": "x int", "b": "y int"}}),
            ("stages.enrich.event_time", ABSENT),
            ("stages.enrich.lookups.0.key", "1 + 1"),
        ],
        f"{SOURCE}.schemas",
        "only for format: json, and the format is avro",
    ),
    (
        "offsets of several topics are no versions",
        [(SOURCE, several()), ("stages.enrich.writeback", {"topic": "seen", "value": "ts"})],
        "stages.enrich.writeback.version",
        "needed, since the source has several topics, whose offsets do not order the records of a key: name the field "
        "that does",
    ),
]


@pytest.mark.parametrize(("changes", "key", "message"), refused(REFUSED))
def test_a_rule_is_told_at_its_key_and_nothing_else_is(changes: Changes, key: str, message: str) -> None:
    assert told(changed(*changes)) == [f"{key}: {message}"]


@pytest.mark.parametrize(
    "text", ["(?i)plays", "plays$", "^plays", r"\Qa\E", "[a&&b]", "a{,3}", "[[a]]", "a b", "é", r"\b"]
)
def test_a_pattern_has_nothing_that_spark_could_read_otherwise(text):
    (message,) = told(changed((SOURCE, pattern(text))))
    assert message.startswith(f"{SOURCE}.topic_pattern: expected a pattern such as plays")


@pytest.mark.parametrize("text", ["(a", "a)", "*a", "[b-a]", "a**"])
def test_a_pattern_that_is_none_is_refused(text):
    (message,) = told(changed((SOURCE, pattern(text))))
    assert message.startswith(f"{SOURCE}.topic_pattern: not a pattern: ")


def test_a_pattern_is_for_whole_names_and_not_for_the_brokers_own_topics():
    source = load_data(changed((SOURCE, pattern(r"(?:x|play[s-]\w+\.v\d{1,2}|__.*)")))).stages["enrich"].source
    topics = ["x", "play-it.v1", "plays_.v22", "xx", "play.v1", "__consumer_offsets", "__mine"]
    assert [topic for topic in topics if source.reads(topic)] == ["x", "play-it.v1", "plays_.v22", "__mine"]
    assert re.fullmatch(source.topic_pattern or "", "x")


def test_the_fields_of_all_topics_are_there_and_null_where_a_topic_lacks_them():
    source = (
        load_data(
            changed(
                (
                    SOURCE,
                    each(
                        plays="user_id string NOT NULL, ip string, ts timestamp",
                        ads="user_id string NOT NULL, ad int NOT NULL",
                    ),
                )
            )
        )
        .stages["enrich"]
        .source
    )
    assert str(source.columns) == "user_id string NOT NULL, ip string, ts timestamp, ad int"
    assert source.all_topics == ("plays", "ads")


def test_a_pattern_matches_no_topic_of_the_pipeline_that_has_no_events():
    other = {"source": {"topic": "x", "format": "string"}, "sink": {"topic": "y"}, "dlq": "plays.other.dead"}
    route = {"topic": "z", "to": {"http": {"url": "https://h/"}}, "retries": ["30s"]}
    back = {"topic": "plays.b", "format": "json", "columns": "c int", "to": {"redis": {"url": "redis://h"}}}
    changes: Changes = [
        (SOURCE, pattern("(?:plays|users)\\.[a-z]+[0-9._a-z]*", format="string", schema=ABSENT)),
        ("stages.enrich.sink.topic", "out"),
        ("stages.enrich.dlq", "dead"),
        ("stages.enrich.lookups", []),
        ("stages.enrich.event_time", ABSENT),
        ("stages.other", other),
        ("ingest", {"in": {"topic": "plays.raw", "path": "/i", "format": "json", "invalid": "dlq"}}),
        ("expel", {"acme": route}),
        ("sync", {"writeback": {"back": {**back, "retries": ["1m"]}}}),
        ("tallies", False),
    ]
    messages = told(changed(*changes))
    assert all(message.startswith(f"{SOURCE}.topic_pattern: matches ") for message in messages)
    assert {message.split()[2].rstrip(",") for message in messages} == {
        "users.v1",
        "plays.other.dead",
        "plays.in.dlq",
        "plays.acme.dlq",
        "plays.acme.retry_in.30s",
        "plays.acme.retry_out",
        "plays.back.dlq",
        "plays.back.retry.1m",
        "plays.holds",
    }
    own = told(changed((SOURCE, pattern("plays\\.(minutes|ratings)")), ("observe", {})))
    assert [message.split()[2].rstrip(",") for message in own] == ["plays.minutes", "plays.ratings"]


def test_a_stage_does_not_read_tallies():
    (message,) = told(changed((SOURCE, pattern("plays.tal.*")), ("tallies", True)))
    assert (
        message == f"{SOURCE}.topic_pattern: plays.tallies is the topic of tallies: the stage would read what it writes"
    )


def test_stages_that_feed_each_other_by_a_list_or_a_pattern_are_told():
    other = {"source": pattern("plays.enr.*"), "sink": {"topic": "ads"}}
    (message,) = told(changed((SOURCE, several()), ("stages.back", other)))
    assert "feed each other" in message
