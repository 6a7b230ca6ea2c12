"""`enrich topics plan|apply|check|describe` on a real broker: a plan is what is done, and no fault goes unnoticed."""

import time

import pytest

from enrich.dev import Stack
from enrich.dev.servers import kafka
from tests.support.commands import enrich, lines
from tests.support.kafka.topics import Cluster
from tests.support.waiting import wait_until

TO = "{http: {url: 'https://example.org/events'}}"


@pytest.fixture
def name(request):
    return f"{request.node.originalname}.{time.time_ns()}"


def pipeline(write_config, topic, wishes="", **extra):
    tables = f"tables:\n  users: {{topic: {topic}, format: json, columns: 'plan string', history: 1h}}\n"
    return write_config(f"{tables}topics:\n  '*': {{partitions: 3, staleness: 1h}}\n{wishes}", **extra)


def problems(done):
    (checked,) = lines(done)
    return {finding["problem"] for finding in checked["findings"]}


def test_a_missing_topic_is_planned_made_as_shown_and_then_nothing_is_left_to_do(write_config, cluster, name):
    config = pipeline(write_config, name)
    planned = enrich("topics", "plan", "-c", config, "--json")
    assert planned.returncode == 1, planned.stderr
    *steps, plan = lines(planned)
    assert {step["step"] for step in steps} == {"create", "record"}
    assert list(steps[0]) == ["step", "topic", "what", "before", "after", "note"]
    shown = {step["what"]: step["after"] for step in steps if step["step"] == "create"}
    assert shown["partitions"] == "3"
    assert shown["cleanup.policy"] == "compact"
    assert int(shown["min.compaction.lag.ms"]) > 3_600_000
    assert not cluster.topics.exists(name)

    unasked = enrich("topics", "apply", "-c", config)
    assert unasked.returncode == 4, unasked.stderr
    assert not cluster.topics.exists(name)
    assert enrich("topics", "apply", "--plan", "000000000000", "-c", config).returncode == 4
    applied = enrich("topics", "apply", "--plan", plan["plan"], "-c", config, "--json")
    assert applied.returncode == 0, applied.stderr
    assert [step["what"] for step in lines(applied) if step.get("done")] == [step["what"] for step in steps]
    settings = cluster.topics.settings(name)
    assert {key: settings[key] for key in shown if key != "partitions"} == {
        key: value for key, value in shown.items() if key != "partitions"
    }
    assert len(cluster.topics.partitions(name)) == 3

    again = enrich("topics", "plan", "-c", config, "--json")
    assert again.returncode == 0
    assert lines(again)[-1]["to_do"] == 0
    assert enrich("topics", "check", "-c", config).returncode == 0
    (described,) = lines(enrich("topics", "describe", "-c", config, "--json"))
    assert described["format"] == "json"
    assert [part["partition"] for part in described["partitions"]] == [0, 1, 2]


def test_settings_are_changed_and_more_partitions_for_keys_are_refused(write_config, cluster, name):
    cluster.topics.create(name, partitions=2, config={"cleanup.policy": "compact,delete"})
    config = pipeline(write_config, name)
    assert problems(enrich("topics", "check", "-c", config, "--json")) == {"wrong_policy", "history_not_kept"}
    applied = enrich("topics", "apply", "--yes", "-c", config)
    assert applied.returncode == 4
    assert "rekey" in applied.stdout
    assert cluster.topics.settings(name)["cleanup.policy"] == "compact"
    assert len(cluster.topics.partitions(name)) == 2
    (refused,) = [step for step in lines(enrich("topics", "plan", "-c", config, "--json")) if "step" in step]
    assert (refused["step"], refused["what"], refused["before"], refused["after"]) == (
        "refused",
        "partitions",
        "2",
        "3",
    )


def test_a_plan_says_what_others_may_need_of_what_it_takes_away(write_config, cluster, name):
    settings = {"cleanup.policy": "compact", "min.compaction.lag.ms": "36000000", "delete.retention.ms": "1"}
    cluster.topics.create(name, partitions=3, config={**settings, "max.compaction.lag.ms": "86400000"})
    steps = lines(enrich("topics", "plan", "-c", pipeline(write_config, name), "--json"))
    notes = {step["what"]: step["note"] for step in steps if step.get("step") == "set"}
    assert "another pipeline" in notes["min.compaction.lag.ms"]
    assert notes["delete.retention.ms"] is None


def test_whoever_only_reads_the_changes_of_a_table_does_not_have_them_deleted(write_config, cluster, name):
    tables = pipeline(write_config, name)
    assert enrich("topics", "apply", "--yes", "-c", tables).returncode == 0
    reads = write_config(f"expel:\n  r: {{topic: {name}, to: {TO}, retries: [], dlq: {name}.dead}}\n", name="r.yaml")
    for command in (("apply", "--yes"), ("plan",), ("check",)):
        assert enrich("topics", *command, "-c", reads).returncode == 0
    assert cluster.topics.settings(name)["cleanup.policy"] == "compact"
    assert enrich("topics", "plan", "-c", tables).returncode == 0


def test_what_one_pipeline_takes_as_text_may_be_another_one_s_json(write_config, cluster, name):
    for number, order in enumerate((("writes", "reads"), ("reads", "writes"))):
        topic = f"{name}.{number}"
        entry = f"{{path: /p, topic: {topic}, format: json}}"
        stage = f"{{source: {{topic: {topic}, format: string}}, sink: {{topic: {topic}.out}}}}"
        sections = {"writes": f"tallies: false\ningest: {{plays: {entry}}}\n", "reads": f"stages: {{pass: {stage}}}\n"}
        for each in order:
            done = enrich("topics", "apply", "--yes", "-c", write_config(sections[each], name=f"{each}.yaml"))
            assert done.returncode == 0, done.stdout
        assert enrich("topics", "check", "-c", write_config(sections["reads"]), "--settings-only").returncode == 0


def test_a_name_that_brokers_take_for_another_one_is_told_with_what_to_do(write_config, cluster):
    name = f"collides.{time.time_ns()}"
    cluster.topics.create(name.replace(".", "_"))
    done = enrich("topics", "apply", "--yes", "-c", pipeline(write_config, name))
    assert done.returncode == 2, done.stderr
    assert "collides with existing topic" in done.stderr
    assert "differ in . and _ only" in done.stderr


def test_a_check_names_every_fault_of_the_records(write_config, cluster, name):
    cluster.topics.create(name, partitions=2)
    cluster.produce(name, [(None, b"{}"), (b"large", b"x" * 5_000)])
    with_rows = [(b"ann", b'{"plan": "%d"}' % number) for number in range(20)]
    cluster.produce(name, with_rows)
    from enrich.kafka import DeliveringProducer

    with DeliveringProducer(cluster.connection) as producer:
        for partition in (0, 1):
            producer.produce(name, b"bob", b"{}", partition=partition)
        # As old as if the cleaner had stood still for days.
        producer.produce(name, b"old", b"{}", partition=0, timestamp_ms=1_600_000_000_000)
        producer.produce(name, b"old", b"{}", partition=0)
    config = pipeline(write_config, name, f"  {name}: {{partitions: 2, max_message: 1KiB}}\n")
    assert enrich("topics", "apply", "--yes", "-c", config).returncode == 0
    done = enrich("topics", "check", "-c", config, "--json")
    assert done.returncode == 1
    (checked,) = lines(done)
    found = {finding["problem"]: finding["what"] for finding in checked["findings"]}
    assert set(found) == {"null_keys", "oversized", "keys_in_two_partitions", "duplicates", "older_than_promised"}
    assert "such as bob" in found["keys_in_two_partitions"]
    assert checked["records"] == 26
    assert checked["live_keys"] == 5  # bob in each of his partitions
    assert "  null_keys: 1 records without a key" in enrich("topics", "check", "-c", config).stdout


def test_a_name_that_the_pipeline_does_not_have_is_a_usage_error(write_config, name):
    done = enrich("topics", "check", "nope", "-c", pipeline(write_config, name))
    assert done.returncode == 2
    assert name in done.stderr


@pytest.mark.parametrize("command", ["plan", "apply", "check", "describe"])
def test_a_broker_that_does_not_answer_ends_with_3_within_the_deadline(write_config, name, command):
    config = pipeline(write_config, name, servers="127.0.0.1:1")
    started = time.monotonic()
    done = enrich("topics", command, "-c", config, "--deadline", "1")
    assert done.returncode == 3, done.stderr
    assert time.monotonic() - started < 20
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("deadline", ["7200", "inf"])
def test_a_deadline_may_be_longer_than_a_client_takes(write_config, name, deadline):
    config = write_config(f"topics: {{'*': {{partitions: 1}}}}\nexpel: {{r: {{topic: {name}, to: {TO}}}}}\n")
    done = enrich("topics", "plan", "-c", config, "--deadline", deadline)
    assert done.returncode == 1, done.stderr


def test_a_plan_that_is_out_of_date_is_not_done(write_config, cluster, name):
    config = pipeline(write_config, name)
    plan = lines(enrich("topics", "plan", "-c", config, "--json"))[-1]["plan"]
    cluster.topics.create(name, partitions=3)
    wait_until(lambda: cluster.topics.exists(name), what="the topic")
    assert enrich("topics", "apply", "--plan", plan, "-c", config).returncode == 4
    assert cluster.topics.settings(name)["cleanup.policy"] == "delete"


def edges(write_config, cluster, name):
    """A pipeline with a route whose topic is there, and takes large events."""
    cluster.topics.create(name, partitions=3, config={"max.message.bytes": "3000000"})
    route, to = name.replace(".", "_"), "{http: {url: 'https://example.org/events'}}"
    config = write_config(
        f"ingest:\n  plays: {{path: /plays, topic: {name}.in, format: json, invalid: dlq, dlq: {name}.bad}}\n"
        f"expel:\n  {route}: {{topic: {name}, to: {to}, retries: [1m], max_age: 2d, dlq: {name}.dlq}}\n"
    )
    return config, f"test.{route}.retry_in.1m", f"test.{route}.retry_out"


@pytest.mark.parametrize("as_json", [True, False])
def test_what_was_done_is_said_also_when_something_then_fails(write_config, cluster, name, as_json):
    # Kafka refuses a topic whose name differs in dots and underscores alone.
    names = [f"{name}.x", f"{name}_x"]
    tables = [f"  t{number}: {{topic: {each}, format: string}}\n" for number, each in enumerate(names)]
    config = write_config(f"tables:\n{''.join(tables)}topics:\n  '*': {{partitions: 3}}\n")
    applied = enrich("topics", "apply", "--yes", "-c", config, *(["--json"] if as_json else []))
    assert applied.returncode == 2, applied.stderr
    assert [cluster.topics.exists(each) for each in names] == [True, False]
    if as_json:
        done = [(step["topic"], step["what"], step["after"]) for step in lines(applied) if step.get("done")]
        assert (names[0], "partitions", "3") in done
        assert {topic for topic, *_ in done} == {names[0]}
    else:
        assert f"\n{names[0]}: partitions is 3\n" in applied.stdout
        assert f"\n{names[1]}: " not in applied.stdout
        assert " changes made" in applied.stdout.splitlines()[-1]


def test_the_topics_of_a_route_take_what_its_topic_takes_and_keep_it_for_as_long_as_it_is_tried(write_config, cluster):
    name = f"edges.{time.time_ns()}"
    config, waiting, out = edges(write_config, cluster, name)
    cluster.topics.create(out, partitions=5, config={"retention.ms": "1000"})
    found = {line["topic"]: line for line in lines(enrich("topics", "check", "-c", config, "--json"))}
    assert [one["problem"] for one in found[waiting]["findings"]] == ["missing"]
    assert {one["problem"] for one in found[out]["findings"]} >= {"kept_too_short", "takes_too_little"}

    applied = enrich("topics", "apply", "--yes", "-c", config)
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert (len(cluster.topics.partitions(waiting)), len(cluster.topics.partitions(out))) == (3, 5)
    assert len(cluster.topics.partitions("test.holds")) == 1
    for topic in (waiting, out):
        settings = cluster.topics.settings(topic)
        assert settings["retention.ms"] == str((2 * 24 * 60 + 1) * 60_000)
        assert int(settings["max.message.bytes"]) >= 3_000_000 + 2**16
    assert {cluster.topics.settings(f"{name}.{one}")["cleanup.policy"] for one in ("bad", "dlq")} == {"compact"}
    left = enrich("topics", "plan", "-c", config)
    assert left.returncode == 0, left.stdout
    checked = enrich("topics", "check", "-c", config)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("middle", ["b", "z"])
def test_a_plan_is_done_whole_also_if_a_route_reads_the_dead_letters_of_another_one(
    write_config, cluster, name, middle
):
    """Topics are made in order of their names: what follows another one is made after it, or before."""
    first, dead, last = f"{name}.a", f"{name}.{middle}", f"{name}.c"
    routes = f"one: {{topic: {first}, to: {TO}, dlq: {dead}}}, two: {{topic: {dead}, to: {TO}, dlq: {last}}}"
    config = write_config(f"topics: {{{first}: {{max_message: 2MB}}}}\nexpel: {{{routes}}}\n")
    applied = enrich("topics", "apply", "--yes", "-c", config)
    assert applied.returncode == 0, applied.stdout + applied.stderr
    sizes = [int(cluster.topics.settings(topic)["max.message.bytes"]) for topic in (first, dead, last)]
    assert sizes == [sizes[0], sizes[0] + 2**16, sizes[0] + 2 * 2**16]
    assert enrich("topics", "plan", "-c", config).returncode == 0


def test_a_plan_is_done_whole_also_where_brokers_take_larger_records_than_most(write_config, tmp_path, monkeypatch):
    monkeypatch.setitem(kafka._SETTINGS, "message.max.bytes", "3000000")
    with Stack(tmp_path / "stack") as stack:
        servers = stack.up().bootstrap_servers
        to = "{http: {url: 'https://example.org/events'}}"
        # Its topics are made before and after the one that they follow.
        route = f"{{topic: events, to: {to}, retries: [1m], max_age: 2d, dlq: dead}}"
        config = write_config(f"expel:\n  plays: {route}\n", servers=servers)
        applied = enrich("topics", "apply", "--yes", "-c", config)
        assert applied.returncode == 0, applied.stdout + applied.stderr
        topics = Cluster({"bootstrap.servers": servers}).topics
        sizes = [topics.settings(name)["max.message.bytes"] for name in ("events", "dead", "test.plays.retry_out")]
        assert sizes == ["3000000", *[str(3_000_000 + 2**16)] * 2]
        assert enrich("topics", "plan", "-c", config).returncode == 0


def test_topics_that_a_stage_finds_by_a_pattern_are_known_and_left_as_they_are(write_config, cluster, name):
    base = name.split("[")[0]
    stage = f"source: {{topic_pattern: '{base}\\.raw\\.[a-z]+', format: string}}, sink: {{topic: {base}.out}}"
    config = write_config(f"stages:\n  s: {{{stage}}}\ntopics:\n  '*': {{retention: 1h, partitions: 2}}\n")
    assert enrich("topics", "apply", "--yes", "-c", config).returncode == 0
    (told,) = [each for each in lines(enrich("doctor", "-c", config, "--json")) if each["check"] == "topics"]
    assert (told["level"], "no topic of the pattern" in told["what"]) == ("bad", True)
    for topic in ("raw.a", "raw.b", "raw.b.c"):
        cluster.topics.create(f"{base}.{topic}", partitions=1)
    described = lines(enrich("topics", "describe", "-c", config, "--json"))
    assert [each["topic"] for each in described] == [f"{base}.out", f"{base}.raw.a", f"{base}.raw.b"]
    assert lines(enrich("topics", "plan", "-c", config, "--json"))[-1]["to_do"] == 0
    assert enrich("topics", "check", f"{base}.raw.a", "-c", config).returncode == 0
    (told,) = [each for each in lines(enrich("doctor", "-c", config, "--json")) if each["check"] == "topics"]
    assert told["level"] == "good"


def test_topics_of_tables_are_changed_and_those_of_others_with_such_names_are_not(write_config, cluster):
    """`{schema}.{table}` is the form of nearly every name: compacted, topics of others would lose their events."""
    first = f"bank{time.time_ns()}"
    made, others = f"{first}.app.users", f"{first}.other.events"
    for topic in (made, others):
        cluster.topics.create(topic, partitions=4)
    origin = "{postgres: {dsn: 'postgresql://127.0.0.1:9/d', tables: ['app.*'], follow: log}}"
    source = f"{{topic: '{first}.{{schema}}.{{table}}', format: json, from: {origin}}}"
    config = write_config(f"sync:\n  sources:\n    {first}: {source}\n")
    kept = f"test.{first}.tables"
    assert {line["topic"] for line in lines(enrich("topics", "describe", "-c", config, "--json"))} == {kept}
    assert enrich("topics", "apply", "--yes", "-c", config).returncode == 0
    cluster.produce(kept, [(b"app.users", b"{}"), (b"app.users", b"{}"), (b"app.not-made", b"{}")])
    applied = enrich("topics", "apply", "--yes", "-c", config)
    assert applied.returncode == 0, applied.stderr
    policies = [cluster.topics.settings(topic)["cleanup.policy"] for topic in (made, others)]
    assert policies == ["compact", "delete"]
