"""The program on a real broker: nodes are played, what it writes and shows is what users get."""

import json
import socket
import time
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress

import pytest

from enrich.cli.services.observe import _days as days
from enrich.kafka.writing.transactions import TransactionalProducer
from enrich.service.signatures import verifies
from enrich.tally import Lags, Origins, Report, Tally, encoded, key_of
from enrich.tally.origins import Read
from enrich.verdict import HopVerdict, MinuteVerdict, State, Up, minute_text
from enrich.verdict import encoded as encoded_verdict
from enrich.verdict import key_of as key_of_verdict
from tests.support import dashboard
from tests.support.commands import enrich, lines
from tests.support.figures import unexplained
from tests.support.observe.observing import World, observing
from tests.support.servers.scripted_endpoint import ScriptedEndpoint, answers
from tests.support.waiting import GUARD_S, wait_until

NewWorld = Callable[..., World]


def minute_now() -> int:
    return int(time.time()) // 60


def test_the_ten_messages(new_world: NewWorld) -> None:
    """Of ten events the nodes have 10, 9, 7 and 5: by name, as everybody gets it."""
    world, minute = new_world(), minute_now() - 5
    world.goes_on_at(minute)
    world.chain(minute, range(10), lost={"first": [3], "second": [0, 1], "acme": [8, 9]})
    world.alive()
    with observing(world.file) as observer:
        verdict = world.settled(minute)
        assert [hop.went for hop in verdict.hops] == [10, 9, 7, 5]
        assert [hop.lost for hop in verdict.hops] == [0, 1, 2, 2]
        assert verdict.went / verdict.came == 0.5
        assert (verdict.state, verdict.up) == (State.SETTLED, Up.DOWN)
        shown = observer.json(f"/api/minutes?route={world.way.replace(' ', '%20').replace('>', '%3E')}")
        (found,) = [each for each in shown if each["in"]]
        assert found["lost_origins"] == [f"{world.raw}/0/3", f"{world.raw}/0/0-1", f"{world.raw}/0/8-9"]
        (alarm,) = wait_until(
            lambda: [a for a in observer.json("/api/state")["alarms"] if a["alarm"].startswith("loss/")],
            what="the alarm",
        )
        assert alarm["text"] == f"{world.way}: 5 of 10 events of a minute are lost (50.00%)"
        assert observer.stop() == 0
    # Without an observer the commands say the same.
    told = enrich("observe", "loss", "-c", world.file, "--json")
    assert told.returncode == 1
    (found,) = [each for each in lines(told) if each["in"]]
    assert (found["in"], found["out"], found["lost"]) == (10, 5, 5)
    assert found["lost_origins"] == [f"{world.raw}/0/3", f"{world.raw}/0/0-1", f"{world.raw}/0/8-9"]
    people = enrich("observe", "loss", "-c", world.file, "--for", "10m")
    assert f"lost: {world.raw}/0/3, {world.raw}/0/0-1, {world.raw}/0/8-9" in people.stdout
    day = enrich("observe", "availability", "-c", world.file, "--json", "--days", "2")
    # 5 down minutes would be two nines; one is three.
    assert [len(each["down"]) for each in lines(day)] == [1]
    assert (day.returncode, lines(day)[0]["nines"]) == (0, 3)
    way = enrich("observe", "trace", "-c", world.file, f"{world.raw}/0/8", "--json")
    assert way.returncode == 1
    assert [step["node"] for step in lines(way)] == ["ingest plays", "stage first", "stage second"]
    whole = enrich("observe", "trace", "-c", world.file, f"{world.raw}/0/5", "--json")
    assert (whole.returncode, lines(whole)[-1]["what"], lines(whole)[-1]["node"]) == (0, "went", "expel acme")


def test_whoever_goes_on_comes_to_the_same_verdicts(new_world: NewWorld) -> None:
    world, minute = new_world(), minute_now() - 5
    world.goes_on_at(minute)
    world.chain(minute, range(100), lost={"second": [7]})
    world.alive()
    with observing(world.file):
        first = world.settled(minute)
    # Killed; meanwhile all of it is said again, under other ids, and two take over at once.
    world.chain(minute, range(100), lost={"second": [7]})
    world.alive()
    with ExitStack() as held:
        for observer in [held.enter_context(observing(world.file)) for _ in range(2)]:
            observer.until_ready()
        # What was lost went after all: so there is a new verdict.
        world.say("second", Tally(went=world.of([7])), Tally("acme", went=world.of([7])))
        world.say("acme", Tally(went=world.of([7])))
        wait_until(lambda: (found := world.verdict(minute)) is not None and not found.total("lost"), what="the new one")
    assert [(each.came, each.went) for each in world.written() if each.minute == minute and each.lots] == [
        (100, 99 if each.total("lost") else 100) for each in world.written() if each.minute == minute and each.lots
    ]
    assert first.came == 100


def test_a_retried_event_is_taken_up_by_an_observer_that_came_later(new_world: NewWorld) -> None:
    world, minute = new_world(), minute_now() - 5
    world.goes_on_at(minute)
    world.chain(minute, range(10), lost={"acme": [4]})
    world.say("acme", Tally(came=world.of([4]), waiting=world.of([4])), at_ms=minute * 60_000 + 40_000)
    world.alive()
    with observing(world.file):
        assert world.settled(minute).total("waiting") == 1
    world.say("acme", Tally(went=world.of([4])))
    with observing(world.file):
        wait_until(lambda: (found := world.verdict(minute)) is not None and found.went == 10, what="all ten")


def test_alarms_are_signed_said_once_and_quiet_while_an_action_is_announced(new_world: NewWorld) -> None:
    secret = "whsec_" + "A" * 43 + "="
    with ScriptedEndpoint(answers(204)) as endpoint:
        alarms = {"webhook": endpoint.url(), "secret": secret, "allow_private": True}
        world, minute = new_world(alarms=alarms), minute_now() - 3
        world.goes_on_at(minute)
        world.chain(minute, range(10), lost={"acme": [4]})
        late = [minute * 60_000] * 10
        slow = Lags.of(late, late, [at + 5_000 for at in late]).of_minute(minute + 1)
        world.say("acme", Tally("", minute + 1, lag=slow), at_ms=minute * 60_000 + 90_000)
        world.alive()
        announced = enrich("observe", "announce", "-c", world.file, "--for", "10m", "new brokers")
        assert announced.returncode == 0, announced.stderr
        with observing(world.file):
            world.settled(minute)
            seen = wait_until(lambda: [*endpoint.requests], what="the webhook")
            said = json.loads(seen[0].body)
            assert (said["alarm"], said["state"], said["pipeline"]) == (f"loss/{world.way}", "on", world.name)
            headers = {name.lower(): value for name, value in seen[0].headers.items()}
            assert verifies(secret, headers, seen[0].body)
            # Others may have the same webhook, and it leaves out what it has already.
            assert headers["webhook-id"].startswith(f"{world.name}/loss/")
        with observing(world.file) as again:  # who comes next knows that it is said
            again.until_ready()
            wait_until(
                lambda: again.json("/status")["observer"]["known_until_ms"] > time.time() * 1000 - 5_000, what="all"
            )
        assert len({json.loads(each.body)["alarm"] for each in endpoint.requests if b'"on"' in each.body}) == 1


def test_the_page_has_a_token_and_answers_what_is_asked_wrong(new_world: NewWorld) -> None:
    world = new_world(token="very secret")  # noqa: S106 - of a test
    with observing(world.file) as observer:
        observer.page  # noqa: B018 - it waits
        wait_until(lambda: observer.ask("/readyz")[0] == 200, what="readiness, without a token")
        assert observer.ask("/api/state")[0] == 401
        assert observer.ask("/api/state", Authorization="Bearer wrong")[0] == 401
        bearer = {"Authorization": "Bearer very secret"}
        assert observer.ask("/api/state", **bearer)[0] == 200
        assert observer.ask("/", Authorization="Basic dXNlcjp2ZXJ5IHNlY3JldA==")[0] == 200
        assert observer.ask("/api/nothing", **bearer)[0] == 404
        assert observer.ask("/api/minutes?route=none", **bearer)[0] == 404
        way = world.way.replace(" ", "%20").replace(">", "%3E")
        assert observer.ask(f"/api/minute?route={way}&minute=soon", **bearer)[0] == 400
        assert observer.ask(f"/api/day?route={way}&day=32", **bearer)[0] == 400
        assert observer.ask("/static/../program.py", **bearer)[0] == 404
        host, _, port = observer.page.rpartition(":")
        with socket.create_connection((host, int(port)), 30) as other:
            other.sendall(b"GET http://[/ HTTP/1.0\r\nAuthorization: Bearer very secret\r\n\r\n")
            assert other.makefile("rb").readline().startswith(b"HTTP/1.0 404")
        assert "Traceback" not in observer.said()
        assert b"very secret" not in observer.ask("/api/state", **bearer)[1] + observer.ask("/status", **bearer)[1]
        assert b"very secret" not in observer.log.read_bytes()
        assert f'enrich_observe_ready{{pipeline="{world.name}"}} 1.0' in observer.ask("/metrics")[1].decode()


def test_what_cannot_be_observed_is_refused(new_world: NewWorld, tmp_path) -> None:
    world = new_world()
    world.file.write_text(
        world.file.read_text().replace("observe:", "x-observe:").split("\npages:")[0].split("observe")[0]
    )
    told = enrich("observe", "loss", "-c", world.file)
    assert told.returncode == 2
    other = new_world()
    assert enrich("observe", "trace", "-c", other.file, "nonsense").returncode == 2
    assert enrich("observe", "loss", "-c", other.file, "--for", "soon").returncode == 2
    assert "no observer has written a verdict" in enrich("observe", "loss", "-c", other.file).stderr


def test_a_verdict_that_cannot_be_read_keeps_no_observer_from_its_work(new_world: NewWorld) -> None:
    world, minute = new_world(), minute_now() - 5
    world.goes_on_at(minute)
    hop = HopVerdict("expel", "acme", lost=1, names={"lost": ["nonsense"]})
    hops = [HopVerdict("ingest", "plays"), HopVerdict("stage", "first"), HopVerdict("stage", "second", "acme"), hop]
    verdict = MinuteVerdict(world.way, minute - 1, State.SETTLED, Up.DOWN, hops, lots=[None])
    world._producer.produce(f"{world.name}.minutes", encoded_verdict(verdict), key_of_verdict(world.way, minute - 1))
    world.chain(minute, range(10))
    world.alive()
    with observing(world.file) as observer:
        observer.until_ready()
        way = world.way.replace(" ", "%20").replace(">", "%3E")
        wait_until(
            lambda: [each for each in observer.json(f"/api/minutes?route={way}") if each["out"] == 10],
            what="the verdict",
        )


def test_days_do_not_take_whole_verdicts_into_memory(new_world: NewWorld) -> None:
    """Thirty days of them are gigabytes."""
    world, first, count = new_world(), minute_now() // 1_440 * 1_440 - 1_440, 1_440
    world.goes_on_at(first)
    lag = Lags.of([0] * 500, 0, range(500)).of_minute(0)
    names = [f"{world.raw}/0/{2 * number}" for number in range(100)]
    for minute in range(first, first + count):
        hop = HopVerdict("expel", "acme", came=600, went=500, dead=100, lag=lag, names={"dead": names})
        verdict = MinuteVerdict(world.way, minute, State.SETTLED, Up.DOWN if minute % 2 else Up.UP, [hop], lots=[None])
        world._producer.produce(f"{world.name}.minutes", encoded_verdict(verdict), key_of_verdict(world.way, minute))
    assert world._producer.flush(GUARD_S) == 0
    tracemalloc.start()
    (day,) = days(world.file, None, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (day["up"], len(day["down"]), day["nines"]) == (720, 720, 0)
    assert peak / count < 8_000, f"{peak / count:,.0f} bytes a minute"


def test_what_nodes_say_on_two_days_is_in_its_order(new_world: NewWorld) -> None:
    world, midnight = new_world(), minute_now() // 1_440 * 86_400_000
    world.comes_in(1, midnight - 5_000)
    said = Tally("", midnight // 60_000 - 1, world.of([0]), world.of([0]))
    world.say("plays", said, at_ms=midnight - 3_000)
    world.say("first", said, at_ms=midnight - 1_000)
    world.say("second", Tally("acme", went=world.of([0])), at_ms=midnight + 1_000)
    found = lines(enrich("observe", "trace", "-c", world.file, f"{world.raw}/0/0", "--json"))
    assert [step["node"] for step in found] == ["ingest plays", "stage first", "stage second"]
    yesterday, today = minute_text(midnight // 60_000 - 1)[:10], minute_text(midnight // 60_000)[:10]
    assert [step["at"] for step in found] == [
        f"{yesterday}T23:59:57Z",
        f"{yesterday}T23:59:59Z",
        f"{today}T00:00:01Z",
    ]


def test_minutes_of_several_days_are_shown_with_their_day(new_world: NewWorld) -> None:
    world, minute = new_world(), minute_now() - 5
    world.goes_on_at(minute)
    for each in (minute - 1_440, minute):
        hop = HopVerdict("expel", "acme", came=1, lost=1, names={"lost": [f"{world.raw}/0/{each}"]})
        verdict = MinuteVerdict(world.way, each, State.SETTLED, Up.DOWN, [hop], lots=[None])
        world._producer.produce(f"{world.name}.minutes", encoded_verdict(verdict), key_of_verdict(world.way, each))
    assert world._producer.flush(GUARD_S) == 0
    of_both = enrich("observe", "loss", "-c", world.file, "--for", "2d").stdout
    for each in (minute - 1_440, minute):
        assert f"{minute_text(each)[:16].replace('T', ' ')}  lost: {world.raw}/0/{each}" in of_both
    of_one = enrich("observe", "loss", "-c", world.file, "--for", "30m").stdout
    assert f"\n{minute_text(minute)[11:16]}  lost: {world.raw}/0/{minute}" in of_one


def test_reports_that_are_none_change_nothing(new_world: NewWorld) -> None:
    world, minute = new_world(), minute_now() - 5
    world.goes_on_at(minute)
    world._producer.produce(f"{world.name}.tallies", b"nonsense", timestamp=minute * 60_000)
    world._producer.produce(f"{world.name}.tallies", None, b"key", timestamp=minute * 60_000)
    world.chain(minute, range(10))
    world.say("plays", Tally("", None, Origins(), Origins()))
    world.alive()
    with observing(world.file) as observer:
        assert world.settled(minute).went == 10
        assert observer.json("/status")["observer"]["unreadable"] == 1


def test_rules_and_dashboards_name_metrics_that_there_are(new_world: NewWorld) -> None:
    world, minute = new_world(loss={"settle": "10s"}), minute_now() - 1
    world.goes_on_at(minute)
    world.chain(minute, range(10))
    late = [minute * 60_000] * 10
    lag = Lags.of(late, late, [at + 50 for at in late]).of_minute(minute)
    world.say("acme", Tally("", minute, lag=lag), at_ms=minute * 60_000 + 40_000)
    world.alive()
    with observing(world.file) as observer:
        world.settled(minute)
        text = wait_until(
            lambda: t if "enrich_observe_p95_seconds{" in (t := observer.ask("/metrics")[1].decode()) else None,
            what="figures of a minute",
        )
    assert text is not None
    named = dashboard.shown("observe")
    assert named
    assert named <= dashboard.exposed(text)
    assert unexplained("observe", text) == set()


@pytest.mark.parametrize("is_last", [False, True])
def test_a_large_transaction_that_was_aborted_before_a_node_leaves_no_minute_open(
    new_world: NewWorld, is_last: bool
) -> None:
    world, minute = new_world(), minute_now() - 5
    world.goes_on_at(minute)
    with closing(TransactionalProducer({"bootstrap.servers": world.servers}, world.mid)) as producer:
        producer.start()
        numbers = [b"%d" % number for number in range(3_000)]
        with suppress(KeyboardInterrupt), producer.transaction():
            producer.produce(world.mid, numbers, numbers)
            producer.client.flush(GUARD_S)
            raise KeyboardInterrupt
        if not is_last:
            with producer.transaction():
                producer.produce(world.mid, numbers[:10], numbers[:10])
    # A commit returns before its marker is written.
    least = 3_000 if is_last else 3_010
    ends = wait_until(lambda: (end := world.topics.end_offsets(world.mid)[0]) > least and end, what="what is committed")
    world.chain(minute, range(10), lost={"second": [7]})
    world.say("second", reads=[] if is_last else [Read(world.mid, 0, ends - 11, ends - 1)])
    world.alive()
    with observing(world.file):
        wait_until(
            lambda: (found := world.verdict(minute)) is not None and found.state == "settled", what="the verdict"
        )


def test_the_marker_of_a_transaction_at_the_end_of_the_tallies_keeps_no_minute_open(new_world: NewWorld) -> None:
    """A realtime stage says what it did in transactions, and then nothing for as long as no event comes."""
    world, minute = new_world(), minute_now() - 5
    world.goes_on_at(minute)
    world.chain(minute, range(10))
    world.say("plays", at_ms=(minute + 1) * 60_000 + 5_000)
    with closing(TransactionalProducer({"bootstrap.servers": world.servers}, world.name)) as producer:
        producer.start()
        report = Report(world.nodes["first"], "in transactions", 0, (minute + 1) * 60_000 + 10_000)
        with producer.transaction():
            for record in encoded(report):
                producer.client.produce(
                    f"{world.name}.tallies", record, key_of(report), partition=0, timestamp=report.at_ms
                )
    with observing(world.file):
        assert world.settled(minute).went == 10


def test_partitions_that_the_topic_of_tallies_is_given_are_read(new_world: NewWorld) -> None:
    world, minute = new_world(), minute_now() - 5
    world.goes_on_at(minute)
    with observing(world.file) as observer:
        observer.until_ready()
        world.topics.grow(f"{world.name}.tallies", 3)
        grown_s = time.time()

        def is_seen() -> bool:
            return bool(observer.json("/status")["observer"]["known_until_ms"] > (grown_s + 2) * 1_000)

        wait_until(is_seen, what="looks at the ends of all partitions")
        world.chain(minute, range(10))
        world.alive()
        assert world.settled(minute).went == 10


def test_a_topic_of_tallies_that_is_made_again_is_read_from_its_beginning(new_world: NewWorld) -> None:
    world, minute = new_world(), minute_now() - 5
    world.goes_on_at(minute)
    with observing(world.file) as observer:
        observer.until_ready()
        for _ in range(40):
            world.say("acme")
        wait_until(lambda: observer.json("/status")["observer"]["reports"] >= 40, what="what nodes have said")
        world.topics.delete(f"{world.name}.tallies")
        wait_until(lambda: not world.topics.exists(f"{world.name}.tallies"), what="its end")
        world.topics.create(f"{world.name}.tallies", config={"message.timestamp.type": "CreateTime"})
        world.chain(minute, range(10))
        world.alive()
        assert world.settled(minute).went == 10
