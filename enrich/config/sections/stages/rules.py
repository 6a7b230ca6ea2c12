"""Rules inside a stage, and between its lookups and the tables."""

import re
from collections.abc import Iterator, Mapping, Sequence

from enrich.config.messages.problems import Finding, Path
from enrich.config.messages.words import Wrong, hint
from enrich.config.sections.kafka.section import KafkaSection
from enrich.config.sections.stages.routes import DROP, route_rules, takes_tombstones
from enrich.config.sections.stages.setting_rules import setting_rules
from enrich.config.sections.stages.source import Tombstones
from enrich.config.sections.stages.source_rules import source_rules
from enrich.config.sections.stages.stage import Lookup, OnMiss, Profile, Replay, Stage
from enrich.config.sections.tables.rules import replayable
from enrich.config.sections.tables.table import KeyKind, Table
from enrich.config.types.column_types import Simple
from enrich.config.types.columns import Columns
from enrich.config.types.values import fit

LINEAGE = "_lineage"
TOPIC_FIELD = "_kafka_topic"
"""What expressions call the topic of an event."""
_FIELD = re.compile(r"(?:(?P<word>[A-Za-z_]\w*)|`(?P<quoted>(?:[^`]|``)+)`)(?P<more>(?:\.(?:\w+|`(?:[^`]|``)+`))*)")
# Words that Spark reads as values, although they look like fields.
_NO_FIELDS = ("current_date", "current_timestamp", "current_user", "localtimestamp", "false", "null", "true")
_VERSION_TYPES = ("tinyint", "smallint", "int", "bigint", "date", "timestamp")


def stage_rules(
    stage: Stage, here: Path, kafka: KafkaSection, tables: Mapping[str, Table], *, has_masks: bool
) -> Iterator[Finding]:
    source = (*here, "source")
    yield from source_rules(stage.source, source, kafka, has_masks=has_masks)
    yield from _field_rules(stage, here)
    yield from _as_rules(stage, here)
    for index, lookup in enumerate(stage.lookups):
        at = (*here, "lookups", index)
        yield from _lookup_rules(stage, here, lookup, at)
        yield from _table_rules(stage, here, lookup, at, tables)
    yield from _replay_rules(stage, here)
    yield from _realtime_rules(stage, here)
    yield from setting_rules(stage, here)
    yield from _output_rules(stage, here, has_registry=kafka.registry is not None)


def _output_rules(stage: Stage, here: Path, *, has_registry: bool) -> Iterator[Finding]:
    if stage.sink is None and not stage.routes:
        yield Finding((*here, "sink"), "missing: The topic of enriched events, or `routes`.", about=(here,))
    tombstones = (*here, "source", "tombstones")
    if stage.source.tombstones != Tombstones.dlq and stage.sink is not None:
        yield Finding(tombstones, "needs `routes`: write the sink as a route", about=((*here, "sink"),))
    elif stage.source.tombstones == Tombstones.forward and not any(takes_tombstones(each) for each in stage.routes):
        message = "every route has `key` or `explode`, for which tombstones have no fields: there is none to take them"
        yield Finding(tombstones, message, about=((*here, "routes"),))
    if stage.sink is not None:
        for key, is_given in (("routes", bool(stage.routes)), ("otherwise", stage.otherwise != DROP)):
            if is_given:
                yield Finding((*here, key), "not beside `sink`, which takes all events", about=((*here, "sink"),))
        return
    if stage.writeback is not None:
        message = "not beside `routes`: write it back with a route that has `key` and `select`"
        yield Finding((*here, "writeback"), message, about=((*here, "routes"),))
    has_dlq = stage.dlq is not None
    yield from route_rules(stage.routes, stage.otherwise, here, has_dlq=has_dlq, has_registry=has_registry)


def _realtime_rules(stage: Stage, here: Path) -> Iterator[Finding]:
    if stage.profile != Profile.realtime:
        if stage.slots is not None:
            yield Finding((*here, "slots"), "needs profile: realtime", about=((*here, "profile"),))
        return
    about, way = ((*here, "profile"),), "not with profile: realtime; use latency"
    if stage.replay == Replay.deterministic:
        yield Finding((*here, "replay"), f"{way}: only a batch has a pin", about=about)
    if stage.writeback is not None:
        yield Finding((*here, "writeback"), f"{way}, or a route with `key` and `select`", about=about)


def _field_rules(stage: Stage, here: Path) -> Iterator[Finding]:
    """Expressions that are plain field names must name fields of the source. Others are checked by Spark."""
    expressions: list[tuple[Path, str, tuple[str, ...]]] = []
    for index, lookup in enumerate(stage.lookups):
        expressions += [((*here, "lookups", index, "key"), key, ()) for key in lookup.key]
    if stage.event_time is not None:
        expressions.append(((*here, "event_time"), stage.event_time, ("timestamp", "bigint")))
    writeback = (*here, "writeback")
    if stage.writeback is not None:
        expressions += [((*writeback, "key"), key, ()) for key in stage.writeback.key or ()]
        expressions.append(((*writeback, "value"), stage.writeback.value, ()))
        if stage.writeback.version is not None:
            expressions.append(((*writeback, "version"), stage.writeback.version, _VERSION_TYPES))
        elif stage.writeback.key is not None:
            message = (
                "needed, since `key` is given: records of one key then come from several partitions, "
                "whose offsets do not order them; name the field that does, or leave `key` out for the event's own key"
            )
            yield Finding((*writeback, "version"), message, about=((*writeback, "version"), (*writeback, "key")))
        elif not stage.source.is_one_topic:
            message = (
                "needed, since the source has several topics, whose offsets do not order the records of a key: "
                "name the field that does"
            )
            about = tuple((*here, "source", way) for way in ("topics", "topic_pattern"))
            yield Finding((*writeback, "version"), message, about=((*writeback, "version"), *about))
    expressions += [((*here, "normalize", name), text, ()) for name, text in stage.normalize.items()]
    for path, expression, types in expressions:
        yield from _plain_field(stage, (*here, "source"), path, expression, types)


def _plain_field(stage: Stage, source: Path, path: Path, expression: str, types: Sequence[str]) -> Iterator[Finding]:
    found = _FIELD.fullmatch(expression.strip())
    names = stage.source.fields
    if path[2] != "normalize" and names is not None:
        names = (*names, *stage.normalize)
    if found is None or names is None or expression.strip().lower() in _NO_FIELDS:
        return
    name = found["word"] or found["quoted"].replace("``", "`")
    if name.casefold() not in [known.casefold() for known in (*names, TOPIC_FIELD)]:
        yield Finding(path, f"the source has no field {name}{hint(name, names, 'fields')}", about=(source,))
        return
    schema = stage.source.columns
    is_declared = schema is not None and not found["more"] and name not in stage.normalize
    column = schema.find(name, ignore_case=True) if is_declared and schema is not None else None
    if types and column is not None and not (isinstance(column.type, Simple) and column.type.name in types):
        wanted = "a timestamp or a bigint" if len(types) == 2 else "a whole number, a date or a timestamp"
        yield Finding(path, f"{name} is declared {column.type}, and {wanted} is needed here", about=(source,))


def _as_rules(stage: Stage, here: Path) -> Iterator[Finding]:
    fields = {name.casefold(): name for name in (*(stage.source.fields or ()), *stage.normalize)}
    seen: dict[str, int] = {}
    for index, lookup in enumerate(stage.lookups):
        at, name = (*here, "lookups", index, "as"), lookup.as_.casefold()
        if name in seen:
            message = f"{lookup.as_} is also the name of lookup {seen[name] + 1} of this stage"
            yield Finding(at, message, about=((*here, "lookups", seen[name], "as"),))
        elif name in fields:
            message = f"the source has a field {fields[name]}, which this object would replace"
            yield Finding(at, message, about=((*here, "source"),))
        elif name == LINEAGE:
            yield Finding(at, f"{LINEAGE} is where `lineage: true` puts its own object")
        seen.setdefault(name, index)


def _lookup_rules(stage: Stage, here: Path, lookup: Lookup, at: Path) -> Iterator[Finding]:
    policy = (*at, "then" if lookup.on_miss == OnMiss.wait else "on_miss")
    if lookup.last_resort == OnMiss.default and lookup.default is None:
        yield Finding(policy, "needs `default:`, the values to use instead", about=((*at, "default"),))
    if lookup.default is not None and lookup.last_resort != OnMiss.default:
        yield Finding((*at, "default"), "only with on_miss: default", about=((*at, "on_miss"), (*at, "then")))
    if lookup.last_resort == OnMiss.dlq and stage.dlq is None:
        yield Finding(policy, "needs a dlq: name its topic in the stage", about=((*here, "dlq"),))
    if "then" in lookup.model_fields_set and lookup.on_miss != OnMiss.wait:
        yield Finding((*at, "then"), "only with on_miss: wait", about=((*at, "on_miss"),))
    if lookup.as_of and stage.event_time is None:
        yield Finding((*at, "as_of"), "needs the stage's event_time", about=((*here, "event_time"),))


def _table_rules(stage: Stage, here: Path, lookup: Lookup, at: Path, tables: Mapping[str, Table]) -> Iterator[Finding]:
    table, there = tables.get(lookup.table), ("tables", lookup.table)
    if table is None:
        close = hint(lookup.table, tuple(tables), "tables")
        yield Finding((*at, "table"), f"there is no table {lookup.table}{close}", about=(there,))
        return
    names = table.columns.names
    unknown = [name for name in lookup.select or () if name not in names]
    for name in unknown:
        message = f"the table {lookup.table} has no column {name}{hint(name, names, 'columns')}"
        yield Finding((*at, "select"), message, about=((*there, "columns"),))
    if not unknown:
        yield from _default_rules(lookup, at, table.columns.select(lookup.select or names), there)
    if table.key == KeyKind.cidr and len(lookup.key) > 1:
        message = f"the table {lookup.table} is a cidr table: its key is one address, not a list"
        yield Finding((*at, "key"), message, about=((*there, "key"),))
    if lookup.as_of and not table.history:
        has = "has a loader, so it keeps no history" if table.loader else "keeps no history; give it `history:`"
        message = f"needs a table with history, and {lookup.table} {has}"
        yield Finding((*at, "as_of"), message, about=((*there, "history"), (*there, "loader")))
    if lookup.on_miss == OnMiss.wait and table.loader is not None and not table.on_demand:
        message = f"wait needs a table with a topic, or on demand: the loader of {lookup.table} is never complete"
        yield Finding((*at, "on_miss"), message, about=((*there, "loader"),))
    if stage.replay == Replay.deterministic:
        for path, why in replayable(table, there):
            message = f"replay: deterministic cannot use the table {lookup.table}: it {why}"
            yield Finding((*here, "replay"), message, about=(path, (*at, "table")))


def _default_rules(lookup: Lookup, at: Path, columns: Columns, there: Path) -> Iterator[Finding]:
    if lookup.default is None:
        return
    about = ((*there, "columns"), (*at, "select"))
    for name in lookup.default:
        if name not in columns.names:
            message = f"not one of the selected columns{hint(name, columns.names, 'columns')}"
            yield Finding((*at, "default", name), message, about=about, key=True)
    for column in columns.columns:
        try:
            fit(lookup.default.get(column.name), column)
        except Wrong as wrong:
            yield Finding((*at, "default", column.name), str(wrong), about=(*about, (*at, "default", column.name)))


def _replay_rules(stage: Stage, here: Path) -> Iterator[Finding]:
    if stage.replay != Replay.deterministic:
        return
    for index, lookup in enumerate(stage.lookups):
        at = (*here, "lookups", index, "on_miss")
        if lookup.on_miss == OnMiss.wait:
            message = "wait is refused with replay: deterministic: a repeat could wait for other versions"
            yield Finding(at, message, about=((*here, "replay"),))
