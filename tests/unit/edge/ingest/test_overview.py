"""Several processes are shown as one: sums that never go back, and who does not run and why."""

import pytest

from edge_service.ingest.entry.figures import Figures
from edge_service.ingest.processes.metrics import exposition
from edge_service.ingest.processes.overview import Overview
from edge_service.ingest.processes.planning import addresses_of, of_process
from edge_service.ingest.processes.reports import EntryReport, ProcessReport, ProcessState
from enrich.config import load_text

PIPELINE = """
name: plays
kafka: {bootstrap_servers: 'h:1'}
ingest:
  plays: {path: /plays, topic: plays, format: json, processes: 2}
  ads: {path: /ads, topic: ads, format: json, processes: 2}
  raw: {listen: '127.0.0.1:8090', path: /raw, topic: raw, format: bytes}
"""
PORTS = {"127.0.0.1:8080": 8080, "127.0.0.1:8090": 8090}


class Time:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def overview(time):
    return Overview(addresses_of(load_text(PIPELINE, {})), PORTS, clock=time)


def report(events=0, trouble=None, names=("plays", "ads"), state=ProcessState.serving, **figures):
    made = Figures(answers={200: events}, events=events, **figures)
    made.acknowledged(0.003)
    whole = ProcessReport(state, {name: EntryReport(trouble, made) for name in names}, {"127.0.0.1:8080": {404: 2}})
    return ProcessReport.from_wire(whole.to_wire())


def states(overview):
    return {status.name: status.state.value for status in overview.statuses()}


def value(overview, line):
    found = [text for text in exposition(overview, "p").decode().splitlines() if text.startswith(line)]
    return [float(text.rpartition(" ")[2]) for text in found]


def test_the_first_process_serves_all_addresses_and_the_next_ones_those_that_want_so_many():
    addresses = addresses_of(load_text(PIPELINE, {}))
    served = [[name for address in of_process(addresses, number) for name in address.entries] for number in range(3)]
    assert served == [["plays", "ads", "raw"], ["plays", "ads"], []]


def test_figures_are_the_sums_over_processes_also_of_those_that_have_ended(overview):
    overview.heard(0, 1, report(10, held=5, names=("plays", "ads", "raw")))
    overview.heard(1, 2, report(7, held=3))
    assert value(overview, 'enrich_ingest_events_total{ingest="plays",pipeline="p"}') == [17]
    assert value(overview, 'enrich_ingest_held_bytes{ingest="plays",pipeline="p"}') == [8]
    overview.ended(1, "was killed")
    assert value(overview, 'enrich_ingest_events_total{ingest="plays",pipeline="p"}') == [17]
    assert value(overview, 'enrich_ingest_held_bytes{ingest="plays",pipeline="p"}') == [5], "it holds nothing any more"
    overview.heard(1, 3, report(1))
    assert value(overview, 'enrich_ingest_events_total{ingest="plays",pipeline="p"}') == [18]
    assert value(overview, 'enrich_ingest_requests_total{ingest="plays",pipeline="p",status="200"}') == [18]
    assert value(overview, 'enrich_ingest_other_requests_total{listen="127.0.0.1:8080",pipeline="p",status="404"}') == [
        6
    ]
    assert value(overview, 'enrich_ingest_acknowledgement_seconds_bucket{ingest="plays",le="0.005",pipeline="p"}') == [
        3
    ]
    assert value(overview, 'enrich_ingest_acknowledgement_seconds_bucket{ingest="plays",le="0.002",pipeline="p"}') == [
        0
    ]


def test_an_entry_runs_while_one_of_its_processes_serves_and_can_write(overview):
    assert set(states(overview).values()) == {"starting"}
    overview.heard(1, 2, report())
    assert states(overview) == {"plays": "running", "ads": "running", "raw": "starting"}
    assert list(overview.not_ready()) == ["raw"]
    overview.heard(1, 2, report(trouble="no broker answers"))
    assert overview.not_ready()["plays"] == "no broker answers"
    overview.ended(1, "was killed by SIGKILL")
    assert overview.not_ready()["ads"] == "was killed by SIGKILL"
    overview.heard(1, 3, report())
    assert "ads" not in overview.not_ready()


def test_it_is_not_ready_once_it_is_being_stopped(overview):
    overview.heard(0, 1, report(names=("plays", "ads", "raw")))
    assert overview.not_ready() == {}
    overview.is_leaving = True
    assert set(overview.not_ready()) == {"plays", "ads", "raw"}


def test_a_process_that_says_nothing_any_more_hangs(overview, time):
    overview.heard(0, 77, report())
    time.now += 9
    assert overview.hanging() == {}
    time.now += 2
    assert list(overview.hanging()) == ["process 77"]
    assert set(overview.not_ready()) == {"plays", "ads", "raw"}
