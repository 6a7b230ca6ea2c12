"""The ways out of a stage: which events take which, and what becomes of them on it."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated

from enrich.config.messages.problems import Finding, Path
from enrich.config.messages.words import hint
from enrich.config.types.fields import Expressions, HeaderName, Identifier, Name, Names, Section, Text, Topic, one_of

DROP, DLQ = "drop", "dlq"


class RecordFormat(StrEnum):
    json = "json"
    avro = "avro"


class Route(Section):
    """A way out of the stage."""

    name: Name
    """The route's name, in metrics, dead letters and `otherwise`."""
    when: Text | None = None
    """Spark SQL expression: the events for which it is true take this route. Default: all."""
    explode: Identifier | None = None
    """A field that is a list: each of its elements makes a record, and the field's name means the element in `select`,
    `key`, `topic_of` and `headers`. An empty list makes none."""
    select: Text | None = None
    """Spark SQL expression for the record's value: an object, map or list becomes JSON, text and bytes stay as they
    are. Default: the whole event with the objects of its lookups."""
    format: Annotated[RecordFormat, one_of(RecordFormat)] = RecordFormat.json
    """How the value is encoded: `json`, or `avro` behind the id of its schema; for that `select` makes an object. The
    schema is the newest of `<topic>-value` in the registry; if there is none the stage registers one as it starts."""
    key: Expressions | None = None
    """Spark SQL expression for the record's key, or a list of them for a composite key. Default: the event's key."""
    topic: Topic | None = None
    """The topic that the records go to."""
    topic_of: Text | None = None
    """Instead of `topic`: Spark SQL expression for the topic's name, one of `topics`."""
    topics: Names | None = None
    """With `topic_of`: the topics that it may name. An event that names another one is a dead letter."""
    headers: Mapping[HeaderName, Text] = {}
    """Headers that the records get beside those of the event: Spark SQL expressions for their values."""

    @property
    def all_topics(self) -> tuple[str, ...]:
        return (self.topic,) if self.topic is not None else self.topics or ()

    @property
    def expressions(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Each with the key under which it stands."""
        for key in ("when", "select", "topic_of"):
            if (text := getattr(self, key)) is not None:
                yield (key,), text
        for text in self.key or ():
            yield ("key",), text
        for name, text in self.headers.items():
            yield ("headers", name), text


def takes_tombstones(route: Route) -> bool:
    """Whether its records have the event's key, and one for each event."""
    return route.key is None and route.explode is None


def route_rules(
    routes: tuple[Route, ...], otherwise: str, here: Path, *, has_dlq: bool, has_registry: bool
) -> Iterator[Finding]:
    """`here`: the stage."""
    seen: dict[str, int] = {}
    for index, route in enumerate(routes):
        at = (*here, "routes", index)
        first = seen.setdefault(route.name.casefold(), index)
        if first != index:
            message = f"{route.name} is also the name of route {first + 1} of this stage"
            yield Finding((*at, "name"), message, about=((*here, "routes", first, "name"),))
        if route.name in (DROP, DLQ):
            yield Finding((*at, "name"), f"`otherwise: {route.name}` has a meaning of its own: choose another name")
        yield from _topic_rules(route, at)
        if route.format == RecordFormat.avro:
            if route.select is None:
                yield Finding((*at, "format"), "avro needs `select`: the object that becomes the record", about=(at,))
            if not has_registry:
                message = "avro needs a registry: set kafka.registry.url"
                yield Finding((*at, "format"), message, about=(("kafka", "registry"),))
    at = (*here, "otherwise")
    if otherwise == DROP:
        return
    if otherwise == DLQ:
        if not has_dlq:
            yield Finding(at, "needs a dlq: name its topic in the stage", about=((*here, "dlq"),))
        return
    names = [route.name for route in routes]
    if otherwise not in names:
        close = hint(otherwise, names, "routes")
        yield Finding(at, f"expected drop, dlq or the name of a route, and there is no route {otherwise}{close}")
    elif routes[names.index(otherwise)].when is not None:
        message = "that route takes what no other one does, so it can have no `when`"
        yield Finding(at, message, about=((*here, "routes", names.index(otherwise), "when"),))


def _topic_rules(route: Route, at: Path) -> Iterator[Finding]:
    if route.topic is not None:
        for key in ("topic_of", "topics"):
            if getattr(route, key) is not None:
                yield Finding((*at, key), "not beside `topic`", about=((*at, "topic"),))
    elif route.topic_of is None:
        yield Finding((*at, "topic"), "missing: The topic that the records go to.", about=(at,))
    elif route.topics is None:
        yield Finding((*at, "topics"), "needed with topic_of: the topics that it may name", about=((*at, "topic_of"),))
