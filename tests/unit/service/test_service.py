"""The service does with a route's errors what the tree of errors says."""

import http.client
import threading
from collections.abc import Callable

import pytest

from enrich.base.backoff import Backoff
from enrich.base.errors import ConfigError, EnrichError, Fatal, Fenced, Retryable, WouldLoseData
from enrich.service.asking import status_at
from enrich.service.meters import Meter
from enrich.service.page import Page, serve_page
from enrich.service.routes import RouteKind, RouteState, RouteStatus
from enrich.service.service import Service
from enrich.service.status import Program, exposition, serve_status
from tests.support.waiting import wait_until


class Scripted:
    """A route that does one thing after the other when it is run: raises an error, or waits for the stop."""

    kind = RouteKind.writeback

    def __init__(self, name: str, *errors: Exception) -> None:
        self.name = name
        self.runs = 0
        self.state = RouteState.running
        self.progressed_ms: int | None = None
        self._errors = list(errors)

    def run(self, stopping: threading.Event) -> None:
        self.runs += 1
        if self._errors:
            raise self._errors.pop(0)
        stopping.wait()

    def status(self) -> RouteStatus:
        return RouteStatus(self.name, self.kind, self.state, last_progress_ms=self.progressed_ms)


def ended(service: Service, stop_when: Callable[[], bool] | None = None) -> EnrichError | None:
    """What it raised, stopped once the condition holds."""
    raised: list[EnrichError | None] = [None]

    def run() -> None:
        try:
            service.run()
        except EnrichError as error:
            raised[0] = error

    thread = threading.Thread(target=run)
    thread.start()
    if stop_when is not None:
        wait_until(stop_when)
        service.stop()
    thread.join(10)
    assert not thread.is_alive()
    return raised[0]


def test_what_passes_is_tried_again_after_a_pause() -> None:
    route = Scripted("a", Retryable("away"), Retryable("away"))
    assert ended(Service([route], most_pause_s=0.01), lambda: route.runs == 3) is None


def test_why_a_route_did_not_run_is_told_until_it_runs() -> None:
    route = Scripted("a", Retryable("the brokers are away"))
    route.state = RouteState.starting
    service = Service([route], most_pause_s=0.01)

    def told() -> tuple[RouteState, str | None]:
        return service.statuses()[0].state, service.statuses()[0].last_error

    def gone_on() -> bool:
        if route.runs < 2:
            return False
        assert told() == (RouteState.waiting, "the brokers are away")
        route.state = RouteState.running
        return told() == (RouteState.running, None)

    assert ended(service, gone_on) is None


@pytest.mark.parametrize("error", [Retryable("it cannot be committed"), ConfigError("it cannot be committed")])
def test_a_route_that_cannot_finish_when_it_is_told_to_stop_says_so(
    caplog: pytest.LogCaptureFixture, error: EnrichError
) -> None:
    class Interrupted(Scripted):
        def run(self, stopping: threading.Event) -> None:
            super().run(stopping)
            raise error

    good, bad = Scripted("good"), Interrupted("bad")
    bad.progressed_ms = 1
    service = Service([good, bad])
    assert ended(service, lambda: good.runs + bad.runs == 2) is None
    assert service.left
    assert "what the route did last may be done again" in caplog.text and "cannot be committed" in caplog.text
    service = Service([good])
    assert ended(service, lambda: good.runs == 2) is None
    assert not service.left


def test_a_wrong_configuration_stops_all_routes() -> None:
    good, wrong = Scripted("good"), Scripted("wrong", ConfigError("no such table"))
    error = ended(Service([good, wrong]))
    assert isinstance(error, ConfigError)
    assert good.runs == 1


def test_what_becomes_wrong_holds_one_route_until_it_is_right_again() -> None:
    good, changed = Scripted("good"), Scripted("changed", ConfigError("no such table"))
    changed.progressed_ms = 1
    service = Service([good, changed], held_s=0.2)
    states = []

    def gone_on() -> bool:
        states.append([status.state for status in service.statuses()])
        return changed.runs == 2

    assert ended(service, gone_on) is None
    assert [RouteState.running, RouteState.held] in states and good.runs == 1


@pytest.mark.parametrize("error", [Fatal("x"), Fenced("x"), ZeroDivisionError("x")], ids=repr)
def test_one_route_that_cannot_go_on_leaves_the_others_alone(error: Exception) -> None:
    good, broken = Scripted("good"), Scripted("broken", error)
    service = Service([good, broken])
    assert ended(service, lambda: [s.state for s in service.statuses()] == ["running", "stopped"]) is None
    assert broken.runs == 1


def test_when_every_route_has_stopped_the_service_ends_with_the_reason() -> None:
    assert str(ended(Service([Scripted("a", Fatal("one")), Scripted("b", Fatal("two"))]))) == "one"


def test_what_would_lose_data_holds_the_route_until_somebody_has_decided() -> None:
    route = Scripted("a", WouldLoseData("the topic was recreated"))
    service = Service([route], held_s=0.2)
    states = []

    def gone_on() -> bool:
        states.append(service.statuses()[0].state)
        return route.runs == 2

    assert ended(service, gone_on) is None
    assert RouteState.held in states


def test_pauses_double_up_to_the_most_with_jitter_and_begin_again_after_a_success() -> None:
    least, most = Backoff(0.1, 1.0, lambda: 0.0), Backoff(0.1, 1.0, lambda: 1.0)
    assert [round(least.next_s(), 3) for _ in range(6)] == [0.05, 0.1, 0.2, 0.4, 0.5, 0.5]
    assert [round(most.next_s(), 3) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    most.reset()
    assert most.tries == 0 and most.next_s() == 0.1


def test_a_rate_is_that_of_the_last_seconds() -> None:
    now = [0.0]
    meter = Meter("rows", ["gaps"], clock=lambda: now[0])
    for _ in range(100):
        now[0] += 0.5
        meter.count("rows", 50)
    assert meter.per_second() == pytest.approx(100, rel=0.1)
    now[0] += 60
    assert meter.per_second() == 0
    assert meter.totals() == {"rows": 5_000, "gaps": 0}


def test_metrics_name_the_pipeline_the_route_and_its_state() -> None:
    status = RouteStatus(
        "out", RouteKind.writeback, RouteState.waiting, lag=7, counters={"rows_written": 3}, gauges={"differences": 2}
    )
    text = exposition([status], Program("sync", "plays", "127.0.0.1:0", "sync.listen")).decode()
    assert 'enrich_sync_state{kind="writeback",pipeline="plays",route="out",state="waiting"} 1.0' in text
    assert 'enrich_sync_lag{kind="writeback",pipeline="plays",route="out"} 7.0' in text
    assert 'enrich_sync_rows_written_total{kind="writeback",pipeline="plays",route="out"} 3.0' in text
    assert 'enrich_sync_differences{kind="writeback",pipeline="plays",route="out"} 2.0' in text


@pytest.mark.parametrize(
    ("state", "code"), [(RouteState.running, 200), (RouteState.standby, 200), (RouteState.held, 503)]
)
def test_an_instance_that_could_take_over_is_ready(state: RouteState, code: int) -> None:
    route = Scripted("a")
    route.state = state
    server = serve_status(Service([route]), Program("sync", "p", "127.0.0.1:0", "sync.listen"))
    try:
        connection = http.client.HTTPConnection(server.address, timeout=30)
        connection.request("GET", "/readyz")
        assert connection.getresponse().status == code
        connection.close()
    finally:
        server.close()


@pytest.mark.parametrize("host", ["[::1]", "[::]", "127.0.0.1"])
def test_a_page_listens_on_addresses_of_both_families(host: str) -> None:
    listen = f"{host}:0"
    server = serve_status(Service([Scripted("a")]), Program("sync", "p", listen, "sync.listen"))
    try:
        assert server.address.startswith(f"{host}:")
        assert [route["name"] for route in status_at(server.address, "p", 30)["routes"]] == ["a"]
    finally:
        server.close()


@pytest.mark.parametrize("address", ["::1", "[::1]"])
def test_a_metrics_port_listens_on_an_ipv6_address_with_and_without_brackets(address: str) -> None:
    page = Page(metrics=lambda: b"", status=lambda: {"pipeline": "p"})
    server = serve_page(address, 0, page, "choose another one")
    assert server is not None
    try:
        assert status_at(server.address, "p", 30) == {"pipeline": "p"}
    finally:
        server.close()
