"""The routes of a stage: what Spark evaluates of them, what workers need, and the records that come of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructField, StructType

from enrich.base.errors import ConfigError
from enrich.codecs.avro.encoding.writing import AvroWriter
from enrich.config import Route
from enrich.config.sections.kafka.section import Registry
from enrich.config.sections.stages.routes import RecordFormat
from enrich.stage.compute import Compiled, NotCompiled
from enrich.stage.events.text import can_write
from enrich.stage.formats.event_format import HEADERS_TYPE, KAFKA
from enrich.stage.plan.expressions import Expression, Expressions
from enrich.stage.plan.leaving.avro_routes import avro_writers
from enrich.stage.plan.leaving.rows import Row
from enrich.stage.plan.limits import Limits
from enrich.stage.plan.operators import BySpark
from enrich.stage.steps.leaving.routes import KEY, SELECTED, TOPIC, Computed, RouteSpec, header_name
from enrich.stage.task.columns import PARTS
from enrich.stage.task.spec import part_name

_TEXTS = (StringType, BinaryType)
_VALUES = (*_TEXTS, StructType, MapType, ArrayType)
_IS_TAKEN = "is_taken"


@dataclass(frozen=True)
class Routing:
    """Made by `routing`."""

    specs: Sequence[RouteSpec]
    evaluated: BySpark
    """The column `PARTS` of each route that workers cannot evaluate."""
    needs: Sequence[str]
    """The fields and objects that the routes name."""
    reasons: Mapping[str, str]
    """Why Spark evaluates some expressions."""

    def row(self, wanted: Column, record: Column, identity: Column) -> Row:
        """The row of a record that workers made, a struct of `TakeRoutes`. `identity`: the headers of the event."""
        return Row(wanted, record["topic"], self._key(record), record["value"], self._headers(record, identity))

    def _key(self, record: Column) -> Column:
        own = [index for index, spec in enumerate(self.specs) if spec.has_key]
        if not own:
            return sql.col(KAFKA.key)
        return sql.when(record["route"].isin(own), record[KEY]).otherwise(sql.col(KAFKA.key))

    def _headers(self, record: Column, identity: Column) -> Column:
        if not any(spec.headers for spec in self.specs):
            return identity
        return sql.concat(identity, sql.coalesce(record["headers"], sql.array().cast(HEADERS_TYPE)))


def routing(
    spark: SparkSession,
    routes: Sequence[Route],
    otherwise: str,
    schema: StructType,
    limits: Limits,
    registry: Registry | None,
    where: str,
    *,
    repeatable: bool,
) -> Routing:
    """`schema`: of an event with the objects of its lookups. `registry`: for routes in avro. Raises ConfigError for
    expressions that cannot work."""
    specs: list[RouteSpec] = []
    columns: dict[str, Column] = {}
    reasons: dict[str, str] = {}
    expressions = Expressions(spark, schema, repeatable=repeatable)
    for index, route in enumerate(routes):
        at = f"{where}routes[{index}]"
        inner = expressions
        if route.explode is not None:
            inner = Expressions(spark, _exploded(schema, route.explode, f"{at}.explode"), repeatable=repeatable)
        texts = _checked(inner, route, at)
        writers: Mapping[str, AvroWriter] = {}
        if registry is not None and route.format == RecordFormat.avro:
            selected, place = texts[SELECTED]
            kind = to_arrow_type(inner.kind(Expression(selected, place)), timezone="UTC")
            writers = avro_writers(route, kind, registry, place)
        condition = None if route.when is None else expressions.condition(Expression(route.when, f"{at}.when"))
        computed = _compiled(expressions, inner, route, texts)
        if isinstance(computed, NotCompiled):
            reasons[computed.text] = computed.reason
            made = _parts(expressions, inner, route, texts, at)
            columns[PARTS.of(route.name)] = made if condition is None else sql.when(condition, made)
        specs.append(
            RouteSpec(
                route.name,
                route.all_topics,
                chooses_topic=route.topic is None,
                explodes=route.explode is not None,
                selects=route.select is not None,
                has_key=route.key is not None,
                headers=tuple(route.headers),
                most_bytes={topic: limits.of(topic) for topic in route.all_topics},
                compacted=[topic for topic in route.all_topics if topic in limits.compacted],
                is_condition=route.name != otherwise,
                writers=writers,
                computed=None if isinstance(computed, NotCompiled) else computed,
            )
        )
    evaluated = BySpark(columns, expressions.fields(columns))
    needs = [*evaluated.needs, *(name for spec in specs if spec.computed for name in spec.computed.needs)]
    return Routing(specs, evaluated, list(dict.fromkeys(needs)), reasons)


def _compiled(
    expressions: Expressions, inner: Expressions, route: Route, texts: Mapping[str, tuple[str, str]]
) -> Computed | NotCompiled:
    """What workers evaluate of the route, or an expression that they cannot: then Spark evaluates all of them."""
    when = None if route.when is None else expressions.compiled(route.when)
    values: dict[str, Compiled] = {}
    for name, (text, _) in texts.items():
        each = inner.compiled(text)
        if isinstance(each, NotCompiled):
            return each
        values[name] = each
    return when if isinstance(when, NotCompiled) else Computed(when, values, route.explode)


def _parts(
    expressions: Expressions, inner: Expressions, route: Route, texts: Mapping[str, tuple[str, str]], at: str
) -> Column:
    """What Spark evaluates of the route; see `RouteSpec`."""
    if route.explode is not None:
        return _of_elements(expressions, route.explode, {name: text for name, (text, _) in texts.items()}, at)
    values = [inner.value(Expression(text, where)).alias(name) for name, (text, where) in texts.items()]
    return sql.struct(*values, sql.lit(True).alias(_IS_TAKEN))


def _checked(expressions: Expressions, route: Route, at: str) -> Mapping[str, tuple[str, str]]:
    """The text of each value that a record needs, and where the user wrote it."""
    texts: dict[str, tuple[str, str]] = {}
    if route.select is not None:
        texts[SELECTED] = _selected(expressions, route.select, route.format, f"{at}.select")
    if route.topic_of is not None:
        texts[TOPIC] = _of_type(expressions, (StringType,), "", route.topic_of, f"{at}.topic_of")
    if route.key is not None:
        expressions.key([Expression(text, f"{at}.key") for text in route.key])
        key = route.key[0] if len(route.key) == 1 else _struct({part_name(i): text for i, text in enumerate(route.key)})
        texts[KEY] = key, f"{at}.key"
    for index, (name, text) in enumerate(route.headers.items()):
        texts[header_name(index)] = _of_type(expressions, _TEXTS, "", text, f"{at}.headers.{name}")
    return texts


def _selected(expressions: Expressions, text: str, form: RecordFormat, where: str) -> tuple[str, str]:
    kind = expressions.kind(Expression(text, where))
    if form == RecordFormat.json:
        found = _of_type(expressions, _VALUES, "an object, a map, a list", text, where)
        require_json(to_arrow_type(kind, timezone="UTC"), f"`{text}`", where)
        return found
    if not isinstance(kind, StructType):
        raise ConfigError(
            f"`{text}` is of type {kind.simpleString()}, and a record in avro is an object",
            where=where,
            next_step="write struct(...)",
        )
    return text, where


def require_json(kind: pa.DataType, what: str, where: str) -> None:
    """Raises ConfigError for a type that JSON has no form for."""
    if not can_write(kind):
        raise ConfigError(
            f"{what} would be written as JSON, which has no form for {kind}",
            where=where,
            next_step="JSON has no maps whose keys are bytes, lists or objects: select other columns, or cast the keys",
        )


def _of_type(
    expressions: Expressions, kinds: tuple[type[DataType], ...], more: str, text: str, where: str
) -> tuple[str, str]:
    kind = expressions.kind(Expression(text, where))
    if not isinstance(kind, kinds):
        raise ConfigError(
            f"`{text}` is of type {kind.simpleString()}, and {more + ', ' if more else ''}text or bytes are needed",
            where=where,
            next_step="cast it to string",
        )
    return text, where


def _of_elements(expressions: Expressions, column: str, texts: Mapping[str, str], at: str) -> Column:
    """A list of what the elements of the column make. If one fails, one that has no values, so that the event becomes a
    dead letter, and not half of its records."""
    name = f"`{column}`"
    each = _struct({**texts, _IS_TAKEN: "true"})
    made = Expression(f"transform({name}, {name} -> {each})", at)
    kind = cast("ArrayType", expressions.kind(made))
    none, failed = sql.array().cast(kind), sql.array(sql.lit(None).cast(kind.elementType))
    return sql.when(sql.col(name).isNull(), none).otherwise(sql.coalesce(expressions.value(made), failed))


def _exploded(schema: StructType, column: str, where: str) -> StructType:
    """The schema with an element of the column in its place."""
    fields = []
    for field in schema:
        if field.name == column:
            if not isinstance(field.dataType, ArrayType):
                raise ConfigError(f"{column} is of type {field.dataType.simpleString()}, not a list", where=where)
            fields.append(StructField(column, field.dataType.elementType))
        else:
            fields.append(field)
    if column not in schema.names:
        raise ConfigError(
            f"there is no field {column}", where=where, next_step=f"the fields are {', '.join(schema.names)}"
        )
    return StructType(fields)


def _struct(texts: Mapping[str, str]) -> str:
    fields = ", ".join(f"'{name}', ({text})" for name, text in texts.items())
    return f"named_struct({fields})"
