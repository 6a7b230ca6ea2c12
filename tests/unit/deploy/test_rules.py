"""Prometheus' alarms see what they are for, also where it happens between two looks."""

import re

import pytest

from enrich.config.types.quantities import parse_duration
from tests.unit.deploy.compose import parse_yaml
from tests.unit.deploy.installed import read

GROUPS = {group["name"]: group for group in parse_yaml(read("deploy/prometheus/rules.yml"))["groups"]}
RULES = {rule["alert"]: rule["expr"] for group in GROUPS.values() for rule in group["rules"]}
_RISE = re.compile(r"increase\((\w+)\[(\w+)\]\) > 0")
RISES = [(alert, counter, past) for alert, expr in RULES.items() for counter, past in _RISE.findall(expr)]


@pytest.mark.parametrize(("alert", "counter", "past"), RISES)
def test_an_alarm_on_a_counter_sees_one_that_is_above_zero_at_its_first_scrape(
    alert: str, counter: str, past: str
) -> None:
    """A program that was away finds at its start what was deleted meanwhile. To Prometheus such a counter is new, above
    all in a new pod, and `increase` of it is zero."""
    assert f"{counter} > 0 unless {counter} offset {past}" in RULES[alert]


def test_every_counter_that_an_alarm_is_on_is_looked_at() -> None:
    assert {counter for _, counter, _ in RISES} == set(re.findall(r"\w+_total", " ".join(RULES.values())))


def test_an_alarm_on_the_state_of_a_route_goes_on_while_the_route_tries_again() -> None:
    """For some seconds it then shows another state, and a scrape that sees it would begin the minutes of `for` anew."""
    states = [expr for expr in RULES.values() if "_state{" in expr]
    assert states
    assert [expr for expr in states if not re.match(r"max_over_time\(\w+_state\{[^}]+\}\[1m\]\) == 1$", expr)] == []


def test_no_judged_minute_passes_between_two_evaluations() -> None:
    """Its figures stand for a minute, a little more or less. By default Prometheus evaluates once a minute."""
    seconds = parse_duration(GROUPS["enrich-observer"]["interval"]).total_seconds()
    assert seconds <= 15
