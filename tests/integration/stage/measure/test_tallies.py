"""What a stage says of its events, beside what became of them."""

import json
from collections import defaultdict

import pytest

from enrich.stage.plan.limits import Limits
from enrich.stage.plan.plan import StagePlan
from enrich.tally import Merged, Node, NodeKind, Origins, decoded, key_of
from tests.support.seed import random_source, rounds
from tests.support.stage.events import BAD_EVENTS, random_event
from tests.support.stage.frames import VERSIONS, origin_of, source_of
from tests.support.stage.world import USERS, StageWorld

USER = {"table": "users", "key": "user_id", "as": "user", "select": ["plan"]}


@pytest.fixture(scope="module")
def world(cluster, tmp_path_factory):
    world = StageWorld(cluster, tmp_path_factory.mktemp("tallies"))
    world.document["tallies"] = True
    world.users()
    world.stage("sink", [{**USER, "on_miss": "drop"}, {**USER, "as": "again", "on_miss": "dlq"}], topics="all")
    world.stage("plain", [], topics="all")
    world.stage("routes", [USER], topics="all", otherwise="drop")
    section = world.document["stages"]["routes"]
    del section["sink"]
    section["routes"] = [
        {"name": "pro", "when": "user.plan = 'pro'", "topic": world.topic("all.pro")},
        {"name": "known", "when": "user.plan IS NOT NULL", "select": "struct(ip)", "topic": world.topic("all.known")},
        {"name": "one", "when": "ip = 'bob'", "select": "nullif(ip, 'bob')", "topic": world.topic("all.one")},
    ]
    back = {"topic": world.topic("all.back"), "key": "user_id", "version": "n", "value": "ip"}
    world.stage("back", [USER], topics="all", writeback=back)
    world.document["stages"]["back"]["source"]["schema"] = "user_id string, ip string, n bigint"
    for name in ("sink", "plain", "routes", "back"):
        source = world.document["stages"][name]["source"]
        del source["topic"]
        # Workers get the topic of each event only where there may be several.
        source |= {"topics": ["events", "others"]} if name == "routes" else {"topic": "events"}
    yield world
    world.close()


def triples(origins: Origins) -> set[str]:
    return {f"{topic}/{p}/{offset}" for topic, p, first, last in origins.ranges() for offset in range(first, last + 1)}


@pytest.mark.parametrize("name", ["sink", "plain", "routes", "back"])
def test_the_union_of_the_reports_is_what_became_of_each_event(spark, world, name):
    source = random_source("tallies")
    events = [*BAD_EVENTS, *(random_event(source, [*USERS]) for _ in range(rounds(300, 5_000)))]
    large = json.dumps({"user_id": "bob", "x": "x" * 50_000}).encode()
    events += [b'{"user_id":"ann","ip":"bob"}', large, b'{"user_id":"bob","n":-1}']
    limits = Limits(sink=20_000, dlq=200_000)
    plan = StagePlan(spark, world.pipeline, name, limits, VERSIONS)
    rows = plan.records(source_of(spark, events)).collect()
    topic = world.pipeline.tallies_topic
    merged, keys = Merged(), set()
    reports = [(bytes(row.key), bytes(row.value)) for row in rows if row.topic == topic]
    for key, value in reports + reports[:1]:  # one comes twice
        report = decoded(value)
        assert key_of(report) == key
        keys.add((report.reporter, report.sequence))
        merged.take(report)
    made: dict[str, set[str]] = defaultdict(set)
    places: dict[str, int] = {}
    for place, row in enumerate(rows):
        headers = {each.key: bytes(each.value).decode() for each in row.headers or []}
        kind = row.topic.rpartition(".")[2]
        if kind == "dlq":
            made["dlq"].add(origin_of(int(headers["enrich.offset"])).decode())
        elif kind not in ("tallies", "back"):
            made[kind].add(headers["enrich.origin"])
            places[headers["enrich.origin"]] = place
            assert headers["enrich.event_time"] == "1000"
    node = Node(world.pipeline.name, NodeKind.stage, name)
    for place, row in enumerate(rows):
        if row.topic == topic:
            one = Merged()
            one.take(decoded(bytes(row.value)))
            assert all(places[origin] < place for origin in triples(one.of(node).went)), "told before it was sent"
    said = all_of(merged, node)
    everything = {origin_of(number).decode() for number in range(len(events))}
    went = set().union(*(found for kind, found in made.items() if kind != "dlq"))
    assert triples(said["", "came"]) == everything
    assert triples(said["", "went"]) == went
    assert triples(said["", "dead"]) == made["dlq"]
    assert triples(said["", "dropped"]) == everything - went - made["dlq"]
    if name == "routes":
        for route in ("pro", "known", "one"):
            assert triples(said[route, "went"]) == made[route]
        assert made["pro"]
    assert made["dlq"]
    assert went


def all_of(merged: Merged, node: Node) -> dict[tuple[str, str], Origins]:
    """By route and kind, of all minutes."""
    found: dict[tuple[str, str], Origins] = defaultdict(Origins)
    for (who, route, _), tally in merged.by_key.items():
        assert who == node
        for kind in ("came", "went", "dropped", "dead"):
            found[route, kind] = found[route, kind] | getattr(tally, kind)
    return found
