"""How long a stage waits for the tables of its executors, which may come late."""

from types import SimpleNamespace
from typing import Any

import pytest

from enrich.base.errors import Unreachable
from enrich.stage.run import preload as preloading
from enrich.stage.run.preload import HostTable, preload


@pytest.fixture
def executors(monkeypatch):
    """Runs a preload whose hosts come so many seconds after its beginning. Each takes its own time to load a table."""
    now = 0.0

    def monotonic():
        return now

    def sleep(seconds):
        nonlocal now
        now += seconds

    def run(hosts, deadline_s=30.0):
        def here():
            return {host: now - came for host, (came, _) in hosts.items() if now >= came}

        def look(*_):
            sleep(0.5)
            return [
                HostTable(host, "users", since >= hosts[host][1], None, None, "it is loading")
                for host, since in here().items()
            ]

        monkeypatch.setattr(preloading, "time", SimpleNamespace(monotonic=monotonic, sleep=sleep))
        monkeypatch.setattr(preloading, "slots_of", lambda _: len(here()))
        monkeypatch.setattr(preloading, "_round", look)
        spark: Any = None
        spec: Any = SimpleNamespace(rules=[SimpleNamespace(name="users", deadline_s=deadline_s)])
        preload(spark, spec)
        return now

    return run


def test_a_host_has_the_whole_deadline_from_when_it_came(executors):
    assert 35 <= executors({"one": (0, 26), "another": (25, 10)}) < 36


def test_a_host_that_does_not_load_in_time_is_named(executors):
    with pytest.raises(Unreachable) as raised:
        executors({"one": (0, 5), "another": (3, 1_000)})
    assert raised.value.where == "host another"
