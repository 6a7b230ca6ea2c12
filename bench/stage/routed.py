"""The routes of `stage_routes`, for a stage and as a plain model, and the check that a pass sent events on them.

bench/java/streams/RouteWithGlobalTable.java has the same five.
"""

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from bench.stage.events import Events, row_of_key, sampled

Event = Mapping[str, Any]
Values = Mapping[str, Mapping[str, object]]
"""What an event becomes: by route, the record's value."""

SCHEMA = "id bigint, key_0 string, key_1 string"
_MOST = 2**63
_NONE = ""
_NEAR = ("eu-1", "eu-2", "eu-3", "eu-4")

FIVE: Sequence[Mapping[str, str]] = (
    {
        "name": "paid",
        "when": "user.plan = 'pro'",
        "select": "struct(id, key_0 AS user, user.region AS region)",
    },
    {
        "name": "team",
        "when": "user.plan = 'team' AND user.region <> 'eu-0'",
        "select": "struct(id, upper(user.plan) AS plan, user.region AS region, key_1 AS item)",
    },
    {
        "name": "free",
        "when": "user.plan = 'free' AND id % 4 <> 0",
        "select": "struct(id, key_0 AS user, concat(user.plan, '/', user.region) AS tariff)",
    },
    {
        "name": "near",
        "when": "user.region IN ('eu-1', 'eu-2', 'eu-3', 'eu-4')",
        "select": "struct(id, coalesce(user.plan, 'none') AS plan, user.region AS region)",
    },
    {
        "name": "sampled",
        "when": "id % 10 < 2",
        "select": "struct(id, key_0 AS user, user.rps + 1 AS rps)",
    },
)
"""An event takes 1.3 of them on average, up to three, and one in fifteen none."""

ONE: Sequence[Mapping[str, str]] = (
    {"name": "all", "select": "struct(id, key_0 AS user, user.plan AS plan, user.region AS region)"},
)


def on_five(event: Event) -> Values:
    """The plain model of `FIVE`."""
    number, user = event["id"], event["key_0"]
    row: Mapping[str, Any] = row_of_key(user)
    plan, region = row["plan"], row["region"]
    made: dict[str, Mapping[str, object]] = {}
    if plan == "pro":
        made["paid"] = {"id": number, "user": user, "region": region}
    if plan == "team" and region != "eu-0":
        made["team"] = {"id": number, "plan": plan.upper(), "region": region, "item": event["key_1"]}
    if plan == "free" and number % 4 != 0:
        made["free"] = {"id": number, "user": user, "tariff": f"{plan}/{region}"}
    if region in _NEAR:
        made["near"] = {"id": number, "plan": plan, "region": region}
    if number % 10 < 2:
        made["sampled"] = {"id": number, "user": user, "rps": row["rps"] + 1}
    return made


def on_one(event: Event) -> Values:
    """The plain model of `ONE`."""
    row = row_of_key(event["key_0"])
    return {"all": {"id": event["id"], "user": event["key_0"], "plan": row["plan"], "region": row["region"]}}


class Expected:
    """What has to come of all events of a topic, by one of the models."""

    def __init__(self, events: Events, model: Callable[[Event], Values]) -> None:
        self._events = events
        self._model = model
        self._pieces = [*events.pieces()]
        made = (model(json.loads(value)) for first, last in self._pieces for value in events.values(first, last))
        ways = Counter(route for each in made for route in each or [_NONE])
        self.untaken = ways.pop(_NONE, 0)
        """The events that take no route."""
        self.records: Mapping[str, int] = ways
        """By route."""

    def check(self, bootstrap_servers: str, topics: Mapping[str, str], counts: Mapping[str, int]) -> None:
        """`topics`: by route. `counts`: how many records each of these has. Raises AssertionError unless they are as
        many as they should be, and samples from all over each partition are right."""
        found = {route: counts[topic] for route, topic in topics.items()}
        if found != self.records:
            raise AssertionError(f"the routes have {found} records instead of {dict(self.records)}")
        for route, topic in topics.items():
            # Samples of a small partition overlap.
            messages = {(each.partition(), each.offset()): each for each in sampled(bootstrap_servers, topic)}
            values = sorted((json.loads(each.value() or b"") for each in messages.values()), key=_number)
            if len({_number(value) for value in values}) < len(values):
                raise AssertionError(f"an event is more than once in {topic}")
            for place, some in groupby(values, key=lambda value: bisect_right(self._pieces, (_number(value), _MOST))):
                self._check(route, self._pieces[place - 1], [*some])

    def _check(self, route: str, piece: tuple[int, int], values: Sequence[Event]) -> None:
        events = self._events.values(*piece)
        for value in values:
            wanted = self._model(json.loads(events[_number(value) - piece[0]])).get(route)
            if value != wanted:
                raise AssertionError(f"the route {route} has {value} instead of {wanted}")


def _number(value: Event) -> int:
    return int(value["id"])
