"""Every rule inside a stage and between it and the tables: what it refuses, at which key, with which words."""

import pytest

from tests.unit.config.helpers import ABSENT, AVRO, LOOKUP, Changes, Refused, changed, refused, told

REFUSED: list[Refused] = [
    # lookups
    (
        "a lookup names a table",
        [(f"{LOOKUP}.table", "usres")],
        "stages.enrich.lookups[0].table",
        "there is no table usres; did you mean users?",
    ),
    (
        "a table that nothing is near to is answered with all",
        [(f"{LOOKUP}.table", "zzz")],
        "stages.enrich.lookups[0].table",
        "there is no table zzz; tables: users, limits, networks",
    ),
    (
        "select names columns",
        [(f"{LOOKUP}.select", ["plan", "regin"])],
        "stages.enrich.lookups[0].select",
        "the table users has no column regin; did you mean region?",
    ),
    (
        "key names a field",
        [(f"{LOOKUP}.key", "userid")],
        "stages.enrich.lookups[0].key",
        "the source has no field userid; did you mean user_id?",
    ),
    (
        "each part of a key names a field",
        [(f"{LOOKUP}.key", ["user_id", "`i p`"])],
        "stages.enrich.lookups[0].key",
        "the source has no field i p; did you mean ip?",
    ),
    (
        "the root of a path is a field",
        [(f"{LOOKUP}.key", "zzz.id")],
        "stages.enrich.lookups[0].key",
        "the source has no field zzz; fields: user_id, ip, ts",
    ),
    (
        "events of bytes have one field",
        [("stages.enrich.source", {"topic": "a", "format": "bytes"}), ("stages.enrich.event_time", ABSENT)],
        "stages.enrich.lookups[0].key",
        "the source has no field user_id; fields: value",
    ),
    (
        "avro events have the schema's fields",
        [
            ("stages.enrich.source", {"topic": "a", "format": "avro", "schema": AVRO}),
            ("stages.enrich.event_time", "ts"),
        ],
        "stages.enrich.event_time",
        "the source has no field ts; fields: user_id",
    ),
    (
        "no two lookups have one name",
        [("stages.enrich.lookups.1", {"table": "networks", "key": "ip", "as": "User"})],
        "stages.enrich.lookups[1].as",
        "User is also the name of lookup 1 of this stage",
    ),
    (
        "a lookup replaces no field",
        [(f"{LOOKUP}.as", "IP")],
        "stages.enrich.lookups[0].as",
        "the source has a field ip, which this object would replace",
    ),
    (
        "a lookup is not the lineage",
        [(f"{LOOKUP}.as", "_lineage")],
        "stages.enrich.lookups[0].as",
        "_lineage is where `lineage: true` puts its own object",
    ),
    (
        "on_miss: default needs default",
        [(f"{LOOKUP}.on_miss", "default")],
        "stages.enrich.lookups[0].on_miss",
        "needs `default:`, the values to use instead",
    ),
    (
        "default needs on_miss: default",
        [(f"{LOOKUP}.default", {"plan": "free"})],
        "stages.enrich.lookups[0].default",
        "only with on_miss: default",
    ),
    (
        "default names selected columns",
        [(f"{LOOKUP}.on_miss", "default"), (f"{LOOKUP}.default", {"plan": "free", "limits": None})],
        "stages.enrich.lookups[0].default.limits",
        "not one of the selected columns; columns: plan, region",
    ),
    (
        "default has the columns' types",
        [(f"{LOOKUP}.on_miss", "default"), (f"{LOOKUP}.default", {"plan": 5})],
        "stages.enrich.lookups[0].default.plan",
        "expected text for string, got the number 5: put it in quotes",
    ),
    (
        "on_miss: dlq needs a dlq",
        [(f"{LOOKUP}.on_miss", "dlq"), ("stages.enrich.dlq", ABSENT)],
        "stages.enrich.lookups[0].on_miss",
        "needs a dlq: name its topic in the stage",
    ),
    (
        "then needs on_miss: wait",
        [(f"{LOOKUP}.on_miss", "drop"), (f"{LOOKUP}.then", "drop")],
        "stages.enrich.lookups[0].then",
        "only with on_miss: wait",
    ),
    (
        "then: default needs default",
        [(f"{LOOKUP}.on_miss", "wait"), (f"{LOOKUP}.then", "default")],
        "stages.enrich.lookups[0].then",
        "needs `default:`, the values to use instead",
    ),
    (
        "on_miss: wait needs a topic",
        [(f"{LOOKUP}.table", "limits"), (f"{LOOKUP}.select", ABSENT), (f"{LOOKUP}.on_miss", "wait")],
        "stages.enrich.lookups[0].on_miss",
        "wait needs a table with a topic, or on demand: the loader of limits is never complete",
    ),
    (
        "a network is found by one address",
        [(f"{LOOKUP}.table", "networks"), (f"{LOOKUP}.select", ABSENT), (f"{LOOKUP}.key", ["ip", "ip"])],
        "stages.enrich.lookups[0].key",
        "the table networks is a cidr table: its key is one address, not a list",
    ),
    (
        "as_of needs a time",
        [(f"{LOOKUP}.as_of", True), ("stages.enrich.event_time", ABSENT)],
        "stages.enrich.lookups[0].as_of",
        "needs the stage's event_time",
    ),
    (
        "as_of needs history",
        [(f"{LOOKUP}.as_of", True), ("tables.users.history", 0)],
        "stages.enrich.lookups[0].as_of",
        "needs a table with history, and users keeps no history; give it `history:`",
    ),
    (
        "loaders have no history",
        [(f"{LOOKUP}.as_of", True), (f"{LOOKUP}.table", "limits"), (f"{LOOKUP}.select", ABSENT)],
        "stages.enrich.lookups[0].as_of",
        "needs a table with history, and limits has a loader, so it keeps no history",
    ),
    # times and versions
    (
        "event_time is a timestamp",
        [("stages.enrich.event_time", "ip")],
        "stages.enrich.event_time",
        "ip is declared string, and a timestamp or a bigint is needed here",
    ),
    (
        "a version is needed when the key is not the event's",
        [("stages.enrich.writeback", {"topic": "seen", "key": "user_id", "value": "struct(ts)"})],
        "stages.enrich.writeback.version",
        "needed, since `key` is given: records of one key then come from several partitions, whose offsets do not "
        "order them; name the field that does, or leave `key` out for the event's own key",
    ),
    (
        "a version can be ordered",
        [("stages.enrich.writeback", {"topic": "seen", "value": "struct(ts)", "version": "ip"})],
        "stages.enrich.writeback.version",
        "ip is declared string, and a whole number, a date or a timestamp is needed here",
    ),
    # profiles
    (
        "only realtime has slots",
        [("stages.enrich.slots", 2)],
        "stages.enrich.slots",
        "needs profile: realtime",
    ),
    (
        "realtime has no pins",
        [("stages.enrich.profile", "realtime"), ("stages.enrich.replay", "deterministic")],
        "stages.enrich.replay",
        "not with profile: realtime; use latency: only a batch has a pin",
    ),
    (
        "realtime writes nothing back",
        [("stages.enrich.profile", "realtime"), ("stages.enrich.writeback", {"topic": "seen", "value": "ts"})],
        "stages.enrich.writeback",
        "not with profile: realtime; use latency, or a route with `key` and `select`",
    ),
]


@pytest.mark.parametrize(("changes", "key", "message"), refused(REFUSED))
def test_refuses(changes: Changes, key: str, message: str) -> None:
    assert told(changed(*changes)) == [f"{key}: {message}"]
