"""The way by which a letter goes back: to its record's topic, or through the retry topic of the route that sent it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from enrich.admin.cluster import Cluster
from enrich.admin.rejected.letter import Letter
from enrich.config import Pipeline, retry_out_topic
from enrich.kafka.identity import ORIGIN, REPLAYS, identity_of
from enrich.kafka.retries import RETRY_HEADERS, retry_headers

# These texts are keys in the JSON of `enrich dlq replay`: they must not change.
GONE = "its topic does not exist"
HIDDEN = "this user lacks the right DESCRIBE on its topic, or there is none"
NO_ROUTE = "its route is not in the configuration"
NO_RETRIES = "its route has no retry topics, through which it would go back"
NO_INGEST = "its ingest is not in the configuration"


@dataclass(frozen=True)
class Way:
    topic: str
    headers: Sequence[tuple[str, bytes | None]]
    partition: int | None = None
    """None: by its key."""
    is_to_its_place: bool = False
    """It goes to the topic in which its record stood."""
    is_unchecked: bool = False
    """Nobody checks again what was found wrong with it."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Ways:
    def __init__(self, pipeline: Pipeline, cluster: Cluster, clock_ms: Callable[[], int] = _now_ms) -> None:
        self._pipeline = pipeline
        self._cluster = cluster
        self._clock_ms = clock_ms
        self._partitions: dict[str, int] = {}

    def of(self, letter: Letter) -> Way | str:
        """The way, or why there is none."""
        pipeline, _, node = letter.sender.partition("/")[0].partition(".")
        kind, _, name = node.partition(".")
        # A DLQ may have letters of other pipelines: whoever has their configuration can send those back.
        is_ours = pipeline == self._pipeline.name
        if letter.place is None:
            if name and kind == "ingest":
                return self._into_ingest(letter) if is_ours else NO_INGEST
        elif name and kind == "expel":
            return self._to_route(letter, letter.place, name) if is_ours else NO_ROUTE
        return Way(letter.topic, _counted(letter, letter.headers), is_to_its_place=letter.place is not None)

    def _into_ingest(self, letter: Letter) -> Way | str:
        entry = self._pipeline.ingest.get(letter.stage)
        if entry is None:
            return NO_INGEST
        return Way(entry.topic, _counted(letter, letter.headers), is_unchecked=True)

    def _to_route(self, letter: Letter, place: tuple[str, int, int], name: str) -> Way | str:
        """As if it were new: with all pauses before it, and its age counted from now."""
        route = self._pipeline.expel.get(name)
        if route is None:
            return NO_ROUTE
        if not route.retries:
            return NO_RETRIES
        topic = retry_out_topic(self._pipeline.name, name)
        if topic not in self._partitions:
            if (reason := why_missing(self._cluster, topic)) is not None:
                return reason
            self._partitions[topic] = len(self._cluster.topics.partitions(topic))
        headers = [(name, content) for name, content in letter.headers if name not in RETRY_HEADERS]
        if identity_of(headers)[0] is None:
            headers.append((ORIGIN, letter.origin.encode()))
        headers += retry_headers(place, self._clock_ms(), 0, letter.topic_id)
        return Way(topic, _counted(letter, headers), place[1] % self._partitions[topic])


def why_missing(cluster: Cluster, topic: str) -> str | None:
    """Why nothing goes back there. None: the topic is there."""
    if cluster.topics.exists(topic):
        return None
    return HIDDEN if cluster.topics.is_hidden(topic) else GONE


def _counted(letter: Letter, headers: Sequence[tuple[str, bytes | None]]) -> Sequence[tuple[str, bytes | None]]:
    others = [(name, content) for name, content in headers if name != REPLAYS]
    return [*others, (REPLAYS, str(letter.replays + 1).encode())]
