"""The page in a real browser: each state that people may find it in."""

import http.client
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from enrich.dev.temporary import temporary_directory
from enrich.tally import Lags, Tally
from tests.support.observe.observing import World, observing
from tests.support.servers.browser import Browser, browser

NewWorld = Callable[..., World]

_TO_THE_RIGHT = """
const is = (cell) => getComputedStyle(cell).textAlign;
return [...document.querySelectorAll("tbody td.number")]
  .filter((cell) => is(cell) !== is(cell.closest("table").tHead.rows[0].cells[cell.cellIndex]))
  .map((cell) => cell.closest("table").id + ": " + cell.cellIndex);
"""
"""Columns whose heads do not stand where their numbers do."""


@pytest.fixture(scope="module")
def page() -> Iterator[Browser]:
    with browser() as one:
        yield one


def minute_now() -> int:
    return int(time.time()) // 60


def late(world: World, minute: int) -> None:
    """How late the events of the minute were at each node."""
    times = [minute * 60_000] * 100
    for number, node in enumerate(("plays", "first", "second", "acme")):
        came, went = [at + number * 50 for at in times], [at + number * 50 + 20 for at in times]
        lag = Lags.of(times, came, went).of_minute(minute)
        world.say(node, Tally("", minute, lag=lag), at_ms=minute * 60_000 + 40_000)


def test_all_is_well_then_something_is_lost(page: Browser, new_world: NewWorld) -> None:
    world, minute = new_world(loss={"settle": "10s"}), minute_now() - 3
    world.goes_on_at(minute)
    world.chain(minute, range(10_000))
    late(world, minute)
    world.alive()
    with observing(world.file) as observer:
        world.settled(minute)
        page.size(1300, 900)
        page.open(f"http://{observer.page}/")
        page.until("#health", lambda text: "Up: nothing was lost" in text)
        assert page.text("#alarms") == "None."
        assert page.driver.find_elements(By.CSS_SELECTOR, "#pie path, #pie circle")
        assert [node.text for node in page.driver.find_elements(By.CSS_SELECTOR, ".node strong")] == [
            "plays",
            "first",
            "second.acme",
            "acme",
        ]
        page.keep("up")
        # It changes by itself: what waited in no topic was lost after all.
        world.say("acme", Tally("", minute + 1, world.of([]), world.of([])))
        world.chain(minute_now(), range(10_000, 10_100), lost={"second": range(10_050, 10_060)})
        page.until("#loss tbody", lambda text: "100" in text)
        page.keep("open")
        for width, height, name in ((360, 740, "phone"), (2560, 1440, "wall")):
            page.size(width, height)
            assert not page.is_too_wide(), width
            page.keep(name)
        page.size(1300, 900)
        for scheme in ("dark", "light"):
            page.prefers(scheme)
            page.keep(scheme)
        # A minute by the keyboard: the chosen one has a table.
        cell = page.driver.find_element(By.CSS_SELECTOR, "#heat button[tabindex='0']")
        cell.send_keys(Keys.ARROW_LEFT)
        chosen = page.driver.find_element(By.CSS_SELECTOR, f"#heat button[data-at='{minute % 1440}']")
        chosen.send_keys(Keys.ENTER)
        page.until("#minute", lambda text: "10,000" in text and "settled, up" in text)
        page.keep("minute")
        assert page.hosts() == {observer.page}
        assert page.complaints() == []


def test_a_loss_is_named(page: Browser, new_world: NewWorld) -> None:
    world, minute = new_world(), minute_now() - 2
    world.goes_on_at(minute)
    world.chain(minute, range(10), lost={"second": [4, 5]})
    world.alive()
    with observing(world.file) as observer:
        world.settled(minute)
        page.open(f"http://{observer.page}/")
        page.until("#alarms", lambda text: "2 of 10 events of a minute are lost" in text)
        page.until("#loss", lambda text: f"lost: {world.raw}/0/4-5" in text)
        page.until(
            "#nines", lambda text: re.match(r"1 of \d judged minutes down, [\d.]+ % up: a whole day", text) is not None
        )
        page.keep("loss")
        assert page.complaints() == []


def test_silence_is_unknown_and_an_empty_page_says_so(page: Browser, new_world: NewWorld) -> None:
    world = new_world()
    with observing(world.file) as observer:
        observer.until_ready()
        page.open(f"http://{observer.page}/")
        page.until("#health", lambda text: "No minute is judged yet" in text)
        assert page.text("#loss tbody") == "No minute yet." or "open" in page.text("#loss tbody")
        page.keep("empty")
    silent, minute = new_world(), minute_now() - 2
    silent.goes_on_at(minute)
    with observing(silent.file) as observer:
        page.open(f"http://{observer.page}/")
        page.until("#health", lambda text: "Unknown" in text and "ingest plays is silent" in text)
        assert page.driver.execute_script(_TO_THE_RIGHT) == []
        # On a phone too, words are not squeezed into the columns of minutes.
        page.size(360, 740)
        wide = page.driver.execute_script("return document.querySelector('#heat .empty').clientWidth")
        assert wide > 200
        page.size(1300, 900)
        page.keep("unknown")
        assert page.complaints() == []


def test_minutes_that_a_node_holds_up_are_neither_up_nor_to_come(page: Browser, new_world: NewWorld) -> None:
    world, minute = new_world(), minute_now() - 4
    world.goes_on_at(minute, read={"first": [f"{world.raw}/0/0"]})
    world.chain(minute, [])
    world.comes_in(10, minute * 60_000)
    for each in (minute + 1, minute + 2):
        some = world.of(range(5) if each == minute + 1 else range(5, 10))
        world.say("plays", Tally("", each, some, some), at_ms=each * 60_000 + 30_000)
    world.alive()
    with observing(world.file) as observer:
        observer.until_ready()
        page.open(f"http://{observer.page}/")
        for _ in range(2):  # it goes on to speak
            world.say("first")
            page.until(
                "#health", lambda text: "Not judged since" in text and "first is behind: 5 events are open" in text
            )
        page.keep("held up")
        assert page.complaints() == []


def test_while_the_broker_is_away_it_says_since_when(page: Browser, tmp_path) -> None:
    with temporary_directory() as own:
        servers = own.up().bootstrap_servers
        assert servers is not None
        world, minute = World(tmp_path, servers, "away"), minute_now() - 2
        world.goes_on_at(minute)
        world.chain(minute, range(10))
        world.alive()
        with observing(world.file) as observer:
            world.settled(minute)
            page.open(f"http://{observer.page}/")
            page.until("#health", lambda text: "Up" in text)
            own.down()
            page.until("#trouble", lambda text: "the observer cannot read or write" in text)
            assert "10" in page.text("#loss tbody"), "what is known is still shown"
            page.keep("away")
            assert page.complaints() == []


def test_it_goes_on_after_an_answer_that_is_an_error(page: Browser, new_world: NewWorld) -> None:
    """As a proxy gives it while the observer is away: a browser does not ask for events again after that."""
    with observing(new_world().file) as observer, ExitStack() as others:
        observer.until_ready()
        for _ in range(32):
            other = http.client.HTTPConnection(observer.page)
            others.callback(other.close)
            other.request("GET", "/api/events")
            assert other.getresponse().status == 200
        assert observer.ask("/api/events")[0] == 503
        page.open(f"http://{observer.page}/")
        page.until("#health", lambda text: "No minute is judged yet" in text)
        shown = [page.driver.execute_script("return document.body.dataset.shown")]
        page.until("#foot", lambda _: page.driver.execute_script("return document.body.dataset.shown") != shown[0])
