"""Times, in UTC."""

import pyarrow as pa

from enrich.stage.compute.kernels.times import UNITS
from enrich.stage.compute.kinds import DATE, LONG, TEXT, TIME, one_of
from enrich.stage.compute.nodes import Call, Constant, Node
from enrich.stage.compute.rules.forms import children, known, strict
from enrich.stage.compute.rules.patterns import pattern_regex
from enrich.stage.compute.rules.position import Position
from enrich.stage.compute.rules.reader import Reader, Rule
from enrich.stage.compute.tree import NotHere, Tree

_NEAR = {DATE: 200_000 * 366, TIME: 2**62}
_KEEP = frozenset({"coalesce", "choose", "truncated", "time_of_date", "date_of_time"})


def is_near(node: Node) -> bool:
    """Whether its times and dates lie some years within those that 64 bits have. Those of fields do: readers know four
    digits of years, and what replaces a field has no reason to lie at an end of time. Numbers and text become any."""
    if isinstance(node, Constant):
        return node.value is None or abs(int(str(node.value))) < _NEAR[node.kind]
    if not isinstance(node, Call):
        return True
    times = [argument for argument in node.arguments if argument.kind in (TIME, DATE)]
    return node.function in _KEEP and all(map(is_near, times))


def _fails(function: str) -> Rule:
    """A function that fails for numbers that are too large."""
    rule = strict(function, one_of(pa.int8(), pa.int16(), pa.int32(), LONG), kind=TIME)

    def failing(reader: Reader, tree: Tree, position: Position) -> Node:
        call = rule(reader, tree, position)
        return reader.failing(tree, call, "failed", position) if isinstance(call, Call) else call

    return failing


def _read(reader: Reader, tree: Tree, position: Position) -> Node:
    text, pattern_node = children(reader, tree, position, one_of(TEXT))
    pattern = known(tree, pattern_node, "pattern")
    regex = None if pattern is None else pattern_regex(pattern)
    if regex is None or tree.kind != TIME:
        raise NotHere(f"workers do not know the pattern `{pattern}`")
    return reader.failing(tree, Call("time_of_text", (text,), TIME, (regex,)), "far_time_of_text", position)


def _truncated(reader: Reader, tree: Tree, position: Position) -> Node:
    unit, time = (reader.read(child, position) for child in tree.children)
    name = str(known(tree, unit, "unit")).upper()
    if name not in UNITS:
        return Constant(None, TIME)
    call = Call("truncated", (time,), TIME, (name,))
    return call if is_near(time) else reader.failing(tree, call, "failed", position)


def _part(function: str, kind: pa.DataType) -> Rule:
    return strict(function, one_of(kind), kind=pa.int32())


TIME_RULES: dict[str, Rule] = {
    "SecondsToTimestamp": _fails("seconds_as_time"),
    "MillisToTimestamp": _fails("millis_as_time"),
    "MicrosToTimestamp": strict("micros_as_time", one_of(LONG), kind=TIME),
    "UnixSeconds": strict("seconds_of_time", one_of(TIME), kind=LONG),
    "UnixMillis": strict("millis_of_time", one_of(TIME), kind=LONG),
    "UnixMicros": strict("micros_of_time", one_of(TIME), kind=LONG),
    "TruncTimestamp": _truncated,
    "GetTimestamp": _read,
    "Hour": _part("hour", TIME),
    "Minute": _part("minute", TIME),
    "Second": _part("second", TIME),
    "Year": _part("year", DATE),
    "Month": _part("month", DATE),
    "DayOfMonth": _part("day", DATE),
}
