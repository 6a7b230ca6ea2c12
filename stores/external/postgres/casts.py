"""Values that PostgreSQL's explicit casts change silently: `'abcdef'::varchar(3)` is not an error.

Found by trying all built-in types: those not listed here keep the meaning of a value or refuse it. Fractions in a real
or double column are rounded to its precision, as everybody expects of such columns.
"""

# {0} is a text, {1} the type. Each test is true if the type stores what the text says. Time zone and formats are those
# of our sessions (session.py): a time without a zone is UTC.
_SAME_TEXT = "{0} = ({0}::{1})::text"
_SAME_WHOLE_NUMBER = (
    r"CASE WHEN {0} ~ '^\s*[-+]?[0-9]+\s*$' THEN {0}::numeric = (({0}::{1})::text)::numeric ELSE true END"
)
_NO_NANOSECONDS = r"{0} !~ '\.\d\d\d\d\d\d\d*[1-9]'"
_HAS_DATE = r"{0} ~ '\d[-/]\d+[-/]\d'"
_NO_ZONE = r"{0} !~ ':\d\d(\.\d+)?\s*([-+]\d|[A-Za-z])'"

_ALWAYS = {
    "bpchar": _SAME_TEXT,
    "name": _SAME_TEXT,
    "char": _SAME_TEXT,
    "money": (r"CASE WHEN {0} ~ '^\s*[-+]?[0-9.]+\s*$' THEN {0}::numeric = ({0}::{1})::numeric ELSE true END"),
    "float4": _SAME_WHOLE_NUMBER,
    "float8": _SAME_WHOLE_NUMBER,
    "oid": _SAME_WHOLE_NUMBER,
    "xid": _SAME_WHOLE_NUMBER,
    "cid": _SAME_WHOLE_NUMBER,
    "timestamp": "({0}::timestamptz AT TIME ZONE 'UTC') = {0}::{1} AND " + _NO_NANOSECONDS,
    "timestamptz": "{0}::timestamptz = {0}::{1} AND " + _NO_NANOSECONDS,
    "date": (
        r"CASE WHEN {0} ~ '^\d+-\d\d-\d\d$' THEN true "
        "ELSE ({0}::timestamptz AT TIME ZONE 'UTC') = ({0}::{1})::timestamp END"
    ),
    "time": f"CASE WHEN {_HAS_DATE} THEN false ELSE {{0}}::timetz = ({{0}}::{{1}})::timetz AND {_NO_NANOSECONDS} END",
    "timetz": f"CASE WHEN {_HAS_DATE} THEN false ELSE {{0}}::timetz = {{0}}::{{1}} AND {_NO_NANOSECONDS} END",
    "interval": "{0}::interval = {0}::{1} AND " + _NO_NANOSECONDS,
    "tsrange": f"{_NO_ZONE} AND {_NO_NANOSECONDS}",
    "tsmultirange": f"{_NO_ZONE} AND {_NO_NANOSECONDS}",
    "tstzrange": _NO_NANOSECONDS,
    "tstzmultirange": _NO_NANOSECONDS,
    "daterange": "{0} !~ ':'",
    "datemultirange": "{0} !~ ':'",
    # If a name is twice in an object, jsonb keeps the last one.
    "jsonb": "{0} IS JSON WITH UNIQUE KEYS",
}
_IF_BOUNDED = {
    "varchar": _SAME_TEXT,
    "bit": "{0}::varbit = ({0}::{1})::varbit",
    "varbit": "{0}::varbit = ({0}::{1})::varbit",
    "numeric": "{0}::numeric = {0}::{1}",
}

# Types whose values are equal only if they are spelled equally.
_TELL_APART = {
    *("text", "varchar", "bpchar", "name", "char"),
    *("int2", "int4", "int8", "oid", "xid8", "pg_lsn"),
    *("bool", "bytea", "bit", "varbit", "uuid", "date", "time", "timestamp", "timestamptz"),
    *("inet", "cidr", "macaddr", "macaddr8"),
}


def keeping(name: str, *, is_bounded: bool) -> str | None:
    """A test for a type of this name. None: its cast never changes a value silently."""
    return _ALWAYS.get(name) or (_IF_BOUNDED.get(name) if is_bounded else None)


def tells_apart(name: str, kind: str, *, is_bounded: bool) -> bool:
    """Whether values with different spellings differ. Not for citext, 1.0 and 1.00 (numeric), a day and 24 hours
    (interval)."""
    return kind == "e" or name in _TELL_APART or (name == "numeric" and is_bounded)
