"""Random expressions in Spark's SQL over the schema of `odd_columns`, of a wanted type."""

import random
from collections.abc import Callable, Mapping, Sequence

from tests.support.spark.odd_columns import number_text, odd_text, time_text

Make = Callable[["Expressions", int], str]


class Expressions:
    """Writes expressions from one random source."""

    def __init__(self, source: random.Random) -> None:
        self.source = source

    def any(self, depth: int) -> str:
        return self.of(self.source.choice([*FORMS]), depth)

    def of(self, kind: str, depth: int) -> str:
        """An expression of the type, `depth` calls deep at most."""
        if depth <= 0 or self.source.random() < 0.15:
            return self.source.choice(LEAVES[kind])(self, 0)
        return self.source.choice(FORMS[kind])(self, depth - 1)

    def two(self, depth: int) -> tuple[str, str]:
        """Two expressions that Spark compares: mostly of one type."""
        kind = self.source.choice(_VALUES)
        likes = next((group for group in _ALIKE if kind in group), (kind,))
        other = self.source.choice(likes) if self.source.random() < 0.2 else kind
        return self.of(kind, depth), self.of(other, depth)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _template(text: str, *kinds: str) -> Make:
    def make(writer: Expressions, depth: int) -> str:
        return text.format(*(writer.of(kind, depth) for kind in kinds))

    return make


def _names(*names: str) -> list[Make]:
    return [lambda _writer, _depth, name=name: name for name in names]  # type: ignore[misc]


def _compared(writer: Expressions, depth: int) -> str:
    left, right = writer.two(depth)
    return f"({left} {writer.source.choice(['=', '<=>', '<', '<=', '>', '>=', '!='])} {right})"


def _in(writer: Expressions, depth: int) -> str:
    kind = writer.source.choice(_VALUES)
    leaf = LEAVES[kind]
    others = [writer.source.choice(leaf)(writer, 0) for _ in range(writer.source.choice([1, 2, 3, 12]))]
    if writer.source.random() < 0.3:
        others.append("NULL")
    return f"({writer.of(kind, depth)} {writer.source.choice(['IN', 'NOT IN'])} ({', '.join(others)}))"


def _null_test(writer: Expressions, depth: int) -> str:
    return f"({writer.any(depth)} IS {writer.source.choice(['', 'NOT '])}NULL)"


def _between(writer: Expressions, depth: int) -> str:
    kind = writer.source.choice(_VALUES)
    return f"({writer.of(kind, depth)} BETWEEN {writer.of(kind, 0)} AND {writer.of(kind, 0)})"


def _chosen(kind: str) -> list[Make]:
    return [
        _template("coalesce({}, {})", kind, kind),
        _template("nvl({}, {})", kind, kind),
        _template("if({}, {}, {})", "boolean", kind, kind),
        _template("CASE WHEN {} THEN {} WHEN {} THEN {} END", "boolean", kind, "boolean", kind),
        _template("CASE WHEN {} THEN {} ELSE {} END", "boolean", kind, kind),
        _template("nvl2({}, {}, {})", "string", kind, kind),
        _template("nullif({}, {})", kind, kind),
    ]


def _cast_from(kind: str, *origins: str) -> list[Make]:
    return [_template(f"CAST({{}} AS {kind})", origin) for origin in origins]


def _literal_text(writer: Expressions, _: int) -> str:
    make = writer.source.choice([odd_text, number_text, time_text])
    return quoted(make(writer.source).replace("\x00", ""))


def _arithmetic(kind: str, *signs: str) -> list[Make]:
    return [
        *(_template(f"({{}} {sign} {{}})", kind, kind) for sign in signs),
        *(_template(f"{f}({{}})", kind) for f in ("-", "abs")),
    ]


_PATTERNS = [
    *["yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "yyyy-MM-dd", "dd/MM/yyyy HH:mm"],
    *[
        "yyyy-MM-dd HH:mm:ss.SSSSSS",
        "yyyy-MM-dd'T'HH:mm:ss'Z'",
        "yyyy-MM-dd HH:mm:ssXXX",
        "yyyyMMdd",
        "MM-yyyy",
        "yyyy-M-d",
    ],
    *["yyyy.MM.dd HH", "yyyy-MM-dd HH:mm:ss.S", "yyyy-MM-dd HH:mm:ss.SSSSSSSSS"],
]


def _to_timestamp(writer: Expressions, depth: int) -> str:
    pattern = writer.source.choice(_PATTERNS)
    text = writer.of("string", depth) if writer.source.random() < 0.3 else writer.source.choice(["z", "u"])
    if writer.source.random() < 0.5:
        text = f"replace({text}, ' ', 'T')" if "'T'" in pattern else f"replace({text}, 'T', ' ')"
    return f'to_timestamp({text}, "{pattern}")'


def _date_trunc(writer: Expressions, depth: int) -> str:
    unit = writer.source.choice(
        ["year", "MONTH", "mm", "week", "Day", "hour", "minute", "second", "millisecond", "quarter"]
    )
    return f"date_trunc('{unit}', {writer.of('timestamp', depth)})"


def _substring(writer: Expressions, depth: int) -> str:
    at, length = (writer.source.choice([-5, -2, -1, 0, 1, 2, 3, 300, -2147483648, 2147483647]) for _ in "12")
    arguments = writer.source.choice([f"{at}", f"{at}, {length}"])
    return f"substring({writer.of('string', depth)}, {arguments})"


def _whole_literals(suffix: str, *values: int) -> Make:
    return lambda writer, _: f"{writer.source.choice(values)}{suffix}"


_WHOLE = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_WHOLE, "float", "double")
_ALIKE = ((*_NUMBERS, "decimal"), ("timestamp", "date"), ("string", "boolean", "int"))
_LITTLE = (-7, -2, -1, 0, 1, 2, 3, 10, 127)

LEAVES: Mapping[str, Sequence[Make]] = {
    "string": [*_names("s", "S", "w", "u", "z", "device.id", "device.deep.name"), _literal_text],
    "boolean": _names("o", "r", "true", "false", "CAST(NULL AS boolean)"),
    "tinyint": [*_names("b"), _whole_literals("Y", *_LITTLE, -128)],
    "smallint": [*_names("h"), _whole_literals("S", *_LITTLE, -32768, 32767)],
    "int": [*_names("i", "j", "device.N"), _whole_literals("", *_LITTLE, 2147483647)],
    "bigint": [*_names("l", "k"), _whole_literals("L", *_LITTLE, 9223372036854775807)],
    "float": _names("f", "1.5F", "CAST('NaN' AS float)"),
    "double": _names("d", "e", "device.Deep.x", "0.5D", "-0.0D", "0D", "1e300D", "CAST('NaN' AS double)"),
    "decimal": _names("m", "q", "p", "n", "1.5", "0.00", "100", "-12345678.99"),
    "timestamp": _names("t", "v", "TIMESTAMP '2024-02-29 12:30:00.5'", "TIMESTAMP '1969-12-31 23:59:59.999999'"),
    "date": _names("a", "c", "DATE '2024-02-29'", "DATE '0001-01-01'"),
    "object": [lambda writer, _: f"struct({writer.of('timestamp', 0)} AS t, {writer.of('bigint', 0)} AS n)"],
    "binary": _names("y", "X'6162'"),
}

_VALUES = [kind for kind in LEAVES if kind != "object"]
"""What can be compared."""

FORMS: Mapping[str, Sequence[Make]] = {
    "string": [
        *_chosen("string"),
        *_cast_from("string", *_WHOLE, "boolean", "date", "timestamp", "decimal", "double"),
        _template("lower({})", "string"),
        _template("upper({})", "string"),
        _template("trim({})", "string"),
        _template("ltrim({})", "string"),
        _template("rtrim({})", "string"),
        _template("concat({}, {})", "string", "string"),
        _template("({} || '-' || {})", "string", "int"),
        _template("concat_ws('/', {}, {}, {})", "string", "string", "bigint"),
        _template("concat_ws({}, {}, {})", "string", "string", "string"),
        _template("left({}, 2)", "string"),
        lambda writer, _: f"tags[{writer.source.choice([-1, 0, 1])}]",
        lambda writer, _: f"element_at(tags, {writer.source.choice([-2, -1, 1, 2])})",
        _template("replace({}, 'a', 'xy')", "string"),
        _template("right({}, 3)", "string"),
        _substring,
    ],
    "boolean": [
        *_chosen("boolean"),
        _template("({} BETWEEN {} AND {})", "timestamp", "timestamp", "timestamp"),
        *_cast_from("boolean", "string", *_NUMBERS),
        *[_compared] * 6,
        *[_in] * 3,
        *[_null_test] * 2,
        _between,
        _template("({} AND {})", "boolean", "boolean"),
        _template("({} OR {})", "boolean", "boolean"),
        _template("(NOT {})", "boolean"),
        _template("array_contains(tags, {})", "string"),
        lambda writer, _: f"array_contains(whole, {writer.source.choice(['i', 'j', '1', '300 - i'])})",
        _template("startswith({}, {})", "string", "string"),
        _template("endswith({}, {})", "string", "string"),
        _template("contains({}, {})", "string", "string"),
        lambda writer, depth: f"({writer.of('string', depth)} LIKE {_pattern(writer)})",
    ],
    "tinyint": [
        *_chosen("tinyint"),
        *_cast_from("tinyint", "string", "boolean", "decimal", *_NUMBERS),
        *_arithmetic("tinyint", "+", "-", "*", "%"),
    ],
    "smallint": [
        *_chosen("smallint"),
        *_cast_from("smallint", "string", "boolean", *_NUMBERS),
        *_arithmetic("smallint", "+", "-", "*", "%"),
    ],
    "int": [
        *_chosen("int"),
        *_cast_from("int", "string", "boolean", "decimal", *_NUMBERS),
        *[_template("length({})", "string")] * 3,
        *_names("size(tags)", "size(whole)", "whole[1]", "element_at(whole, -1)"),
        *_arithmetic("int", "+", "-", "*", "%"),
        *(_template(f"{part}({{}})", "timestamp") for part in ("hour", "minute", "second", "year", "month", "day")),
    ],
    "bigint": [
        *_chosen("bigint"),
        *_cast_from("bigint", "string", "boolean", "timestamp", "decimal", *_NUMBERS),
        *_arithmetic("bigint", "+", "-", "*", "%", "div"),
        _template("({} div {})", "int", "tinyint"),
        *(_template(f"unix_{unit}({{}})", "timestamp") for unit in ("seconds", "millis", "micros")),
    ],
    "float": [
        *_chosen("float"),
        *_cast_from("float", "string", "boolean", "decimal", *_NUMBERS),
        *_arithmetic("float", "+", "-", "*", "%"),
    ],
    "double": [
        *_chosen("double"),
        *_cast_from("double", "string", "boolean", "timestamp", "decimal", *_NUMBERS),
        *_arithmetic("double", "+", "-", "*", "/", "%"),
        *(_template("({} / {})", *pair) for pair in (("int", "int"), ("bigint", "double"), ("float", "float"))),
        _template("({} + {})", "double", "int"),
    ],
    "decimal": [
        *_chosen("decimal"),
        *_cast_from("decimal(10,2)", "string", "int", "bigint", "decimal", "double"),
        *_cast_from("decimal(38,18)", "string", "int", "bigint", "decimal"),
        *_cast_from("decimal(4,1)", "string", "int", "decimal"),
        *_arithmetic("decimal", "+", "-", "*", "/"),
        *(_template(f"({{}} {sign} {{}})", "decimal", "int") for sign in "+-*"),
    ],
    "timestamp": [
        *_chosen("timestamp"),
        *_cast_from("timestamp", "string", "bigint", "int", "date", "double"),
        *(_template(f"timestamp_{unit}({{}})", "bigint") for unit in ("seconds", "millis", "micros")),
        _template("timestamp_seconds({})", "int"),
        _date_trunc,
        *[_to_timestamp] * 4,
    ],
    "date": [
        *_chosen("date"),
        *_cast_from("date", "string", "timestamp"),
        _template("to_date({})", "string"),
        _template("to_date({}, 'yyyy-MM-dd')", "string"),
    ],
    "object": [
        _template("struct({} AS a, {} AS b)", "timestamp", "string"),
        _template("named_struct('x', {}, 'y', {}, 'z', {})", "boolean", "date", "decimal"),
        _template("struct({} AS inner)", "object"),
    ],
    "binary": [*_chosen("binary"), *_cast_from("binary", "string")],
}


def _pattern(writer: Expressions) -> str:
    parts = writer.source.choices(
        ["%", "_", "a", "b", ".", "é", "\\\\%", "\\\\_", "(", "x", "1"], k=writer.source.randint(0, 4)
    )
    return "'" + "".join(parts) + "'"
