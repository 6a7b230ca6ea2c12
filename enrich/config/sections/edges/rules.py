"""Rules inside the sections `ingest` and `expel`, and between them and the rest of the pipeline."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from graphlib import CycleError, TopologicalSorter

from enrich.config.messages.problems import Finding, Path
from enrich.config.messages.words import hint, listed
from enrich.config.sections.edges.expel import Expel, HttpFormat, retry_in_topics, retry_out_topic
from enrich.config.sections.edges.ingest import TENANT_COLUMNS, Ingest, Invalid
from enrich.config.sections.pipeline import Pipeline
from enrich.config.sections.tables.rules import encoding_rules
from enrich.config.sections.tables.table import KeyKind, Table
from enrich.config.types.encoding import Format
from enrich.config.types.quantities import duration_text

_LONGEST_TIMEOUT, _LONGEST_WAIT = timedelta(minutes=5), timedelta(minutes=1)


def edge_rules(pipeline: Pipeline) -> Iterator[Finding]:
    at_path: dict[tuple[str, str], str] = {}
    at_address: dict[str, str] = {}
    for name, entry in pipeline.ingest.items():
        here = ("ingest", name)
        yield from encoding_rules(entry, here, pipeline.kafka)
        yield from _ingest_rules(entry, here, pipeline.tables)
        other = at_path.setdefault((entry.listen, entry.path), name)
        if other != name:
            message = f"{entry.path} on {entry.listen} is also the path of {other}"
            yield Finding((*here, "path"), message, about=(("ingest", other, "path"),))
        first = at_address.setdefault(entry.listen, name)
        for key in ("processes", "tls"):
            if getattr(entry, key) != getattr(pipeline.ingest[first], key):
                message = f"{first} listens on the same address with another value"
                yield Finding((*here, key), message, about=(("ingest", first, key),))
    for name, route in pipeline.expel.items():
        yield from _expel_rules(route, ("expel", name))
    yield from _topic_rules(pipeline)


def _ingest_rules(entry: Ingest, here: Path, tables: Mapping[str, Table]) -> Iterator[Finding]:
    if entry.format != Format.json:
        for key in ("key", "event_time"):
            if getattr(entry, key) is not None:
                message = f"only for format: json, and the format is {entry.format}: the body is not looked into"
                yield Finding((*here, key), message, about=((*here, "format"),))
    if entry.tenants is not None:
        if entry.tokens is not None:
            yield Finding((*here, "tenants"), "give tokens or tenants, not both", about=((*here, "tokens"),))
        if entry.tenants not in tables:
            message = f"there is no table {entry.tenants}{hint(entry.tenants, [*tables], 'tables')}"
            yield Finding((*here, "tenants"), message, about=(("tables",),))
        else:
            yield from _tenant_rules(entry.tenants, tables[entry.tenants], here)
    for key in ("body_deadline", "deadline"):
        if not timedelta(milliseconds=100) <= getattr(entry, key) <= _LONGEST_TIMEOUT:
            yield Finding((*here, key), f"must be between 100ms and {duration_text(_LONGEST_TIMEOUT)}")
    if not entry.max_body:
        yield Finding((*here, "max_body"), "must be more than 0")
    if entry.in_flight < entry.max_body:
        message = "must be at least max_body: the largest request would never have room"
        yield Finding((*here, "in_flight"), message, about=((*here, "max_body"),))
    if entry.max_inflated < entry.max_body:
        message = "must be at least max_body: a body that is not compressed is held to both"
        yield Finding((*here, "max_inflated"), message, about=((*here, "max_body"),))


def _tenant_rules(name: str, table: Table, here: Path) -> Iterator[Finding]:
    about = ((*here, "tenants"),)
    if table.key is not KeyKind.exact:
        yield Finding(("tables", name, "key"), "tenants are found by exact keys", about=about)
    if table.on_demand:
        message = "tenants need the whole table: the first request of each would be refused"
        yield Finding(("tables", name, "on_demand"), message, about=about)
    for column in table.columns.columns:
        wanted = TENANT_COLUMNS.get(column.name)
        if wanted is not None and str(column.type) not in wanted:
            message = f"{column.name} of tenants must be {listed(wanted)}, and is {column.type}"
            yield Finding(("tables", name, "columns"), message, about=about)


def _expel_rules(route: Expel, here: Path) -> Iterator[Finding]:
    http, at = route.to.http, (*here, "to", "http")
    if (http.cert_file is None) != (http.key_file is None):
        given, missing = ("cert_file", "key_file") if http.key_file is None else ("key_file", "cert_file")
        yield Finding((*at, given), f"needs {missing}")
    if not http.url.get_secret_value().startswith("https://"):
        for key in ("ca_file", "cert_file"):
            if getattr(http, key) is not None:
                yield Finding((*at, key), "only with an https address", about=((*at, "url"),))
    if not timedelta(milliseconds=100) <= http.timeout <= _LONGEST_TIMEOUT:
        yield Finding((*at, "timeout"), f"must be between 100ms and {duration_text(_LONGEST_TIMEOUT)}")
    if http.format is HttpFormat.single and "events" in route.batch.model_fields_set and route.batch.events != 1:
        message = "with format: single a request has one event"
        yield Finding((*here, "batch", "events"), message, about=((*at, "format"),))
    if not route.batch.bytes:
        yield Finding((*here, "batch", "bytes"), "must be more than 0")
    if route.batch.wait > _LONGEST_WAIT:
        yield Finding((*here, "batch", "wait"), f"must be at most {duration_text(_LONGEST_WAIT)}")
    if route.window.bytes < route.batch.bytes:
        message = "must be at least batch.bytes: no batch would ever be full"
        yield Finding((*here, "window", "bytes"), message, about=((*here, "batch", "bytes"),))
    for status in sorted({*route.split} & {*route.retry_statuses}):
        message = f"{status} is also one of split: a batch is retried or halved, not both"
        yield Finding((*here, "retry_statuses"), message, about=((*here, "split"),))
    if any(not pause for pause in route.retries):
        yield Finding((*here, "retries"), "pauses must be more than 0")
    twice = next((pause for pause in route.retries if route.retries.count(pause) > 1), None)
    if twice is not None:
        yield Finding((*here, "retries"), f"{duration_text(twice)} occurs twice: each pause has a topic of its own")
    if not route.max_age:
        yield Finding((*here, "max_age"), "must be more than 0")


def _topic_rules(pipeline: Pipeline) -> Iterator[Finding]:
    """What is written for one purpose is not read for another."""
    tables = {table.topic: name for name, table in pipeline.tables.items() if table.topic is not None}
    for name, entry in pipeline.ingest.items():
        here = ("ingest", name)
        if entry.topic in tables:
            message = f"{entry.topic} is the topic of the table {tables[entry.topic]}: events would become its rows"
            yield Finding((*here, "topic"), message, about=(("tables", tables[entry.topic], "topic"),))
        if entry.invalid is Invalid.dlq:
            yield from _dlq_rules(entry.dlq, entry.topic, here, tables)
    for name, route in pipeline.expel.items():
        here = ("expel", name)
        yield from _dlq_rules(route.dlq, route.topic, here, tables)
        own = {topic for topic, _ in retry_in_topics(pipeline.name, name, route.retries)}
        own.add(retry_out_topic(pipeline.name, name))
        for other, reading in pipeline.expel.items():
            for key in ("topic", "dlq"):
                if getattr(reading, key) in own:
                    message = f"{getattr(reading, key)} is a retry topic of the route {name}: events would go round"
                    yield Finding(("expel", other, key), message, about=((*here, "retries"),))

    circle = _circle(pipeline.expel)
    if circle:
        message = f"the routes {' -> '.join([*circle, circle[0]])} deliver each other's dead letters: what no endpoint "
        about = tuple(("expel", name, "topic") for name in circle)
        yield Finding(("expel", circle[0], "dlq"), f"{message}takes would go round for ever", about=about)


def _circle(routes: Mapping[str, Expel]) -> list[str]:
    """The first one: routes each of which delivers the dead letters of the one before it."""
    before = {
        name: [other for other, writing in routes.items() if writing.dlq == route.topic and other != name]
        for name, route in routes.items()
    }
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        names: list[str] = error.args[1]
        return names[:-1]
    return []


def _dlq_rules(dlq: str, topic: str, here: Path, tables: Mapping[str, str]) -> Iterator[Finding]:
    if dlq == topic:
        message = f"{dlq} is also the topic of the events: dead letters would be events again"
        yield Finding((*here, "dlq"), message, about=((*here, "topic"),))
    if dlq in tables:
        message = f"{dlq} is the topic of the table {tables[dlq]}: dead letters would become its rows"
        yield Finding((*here, "dlq"), message, about=(("tables", tables[dlq], "topic"),))
