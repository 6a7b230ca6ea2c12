"""Values of members that are replaced in columns, against events that are put together from their parts."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enrich.stage.events import places
from enrich.stage.events.fields import EventFields
from enrich.stage.events.replacing import replaced

NAMES = ("user_id", "ü", "a", 'q"', "b\\")
SPACE = st.sampled_from(["", "", "", " ", "\n\t ", "\r\n" * 50])
texts = st.text(st.sampled_from('\\"{}[],: aü\u2028\n\x00') | st.characters(codec="utf-8"), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
names = st.sampled_from([*NAMES, *NAMES, "users", "user_i", "", "ser_id"]) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)


@st.composite
def written(draw, value):
    """A value as JSON, as some producer may write it."""
    style = draw(st.sampled_from([(",", ":"), (", ", " : "), ("\n,", ":\t")]))
    return json.dumps(value, ensure_ascii=draw(st.booleans()), separators=style)


@st.composite
def name_texts(draw, name):
    text = json.dumps(name, ensure_ascii=draw(st.booleans()))
    if not draw(st.integers(0, 9)):
        text = '"' + "".join(f"\\u{ord(each):04x}" if ord(each) < 0x10000 else each for each in name) + '"'
    return text


@st.composite
def events(draw):
    """The parts of an event: its members as [before the value, value, after it], and what is around them."""
    members = []
    for _ in range(draw(st.integers(0, 5))):
        name = draw(names)
        space = [draw(SPACE) for _ in range(4)]
        value = draw(written(draw(values))) if draw(st.integers(0, 20)) else "1" * 70
        before = f"{space[0]}{draw(name_texts(name))}{space[1]}:{space[2]}"
        members.append((name, before, value, space[3]))
    return draw(SPACE) + "{", members, (draw(SPACE) if not members else "") + "}" + draw(SPACE)


def event_of(parts):
    opening, members, closing = parts
    return opening + ",".join(before + value + after for _, before, value, after in members) + closing


def is_right(made, parts, new):
    """Whether the members of `new` have these texts, and all else is as it was."""
    opening, members, closing = parts
    kept = opening + ",".join(before + new.get(name, value) + after for name, before, value, after in members) + closing
    there = {name for name, *_ in members}
    added = [f"{json.dumps(name, ensure_ascii=False)}:{text}" for name, text in new.items() if name not in there]
    if not added:
        return bool(made == kept)
    # White space around an event does not count.
    body = kept.strip(" \t\r\n").removesuffix("}")
    return bool(made.strip(" \t\r\n") == body + ",".join([*([""] if members else []), *added]) + "}")


@given(
    st.lists(st.tuples(events(), st.booleans()), min_size=1, max_size=8),
    st.lists(st.sampled_from(NAMES), unique=True, max_size=3),
    st.lists(st.sampled_from(['"x"', "null", '{"user_id":"\\\\"}', "[1,2]", '"ü\\"}"']), min_size=8, max_size=8),
)
def test_only_the_values_of_these_members_change(drawn, chosen, new):
    given_events = [event_of(parts) for parts, _ in drawn]
    wanted = np.array([is_wanted for _, is_wanted in drawn])
    # A part of a larger array, as slices of Spark's batches are; and unwanted events need not be JSON.
    shown = [text.encode() if is_wanted else b'\xff"{' for text, is_wanted in zip(given_events, wanted, strict=True)]
    array = pa.array([b'"', *shown, b"{"], pa.binary()).slice(1, len(shown))
    members = {
        name: pa.array([new[(row + shift) % 8].encode() for row in range(len(shown))], pa.binary())
        for shift, name in enumerate(chosen)
    }
    made = replaced(array, wanted, members).to_pylist()
    for row, ((parts, is_wanted), text) in enumerate(zip(drawn, made, strict=True)):
        if not is_wanted:
            assert text is None
            continue
        own = {name: new[(row + shift) % 8] for shift, name in enumerate(chosen)}
        assert is_right(text.decode(), parts, own), (event_of(parts), own)
        # What our reader finds there is what was given.
        fields = EventFields(pa.schema([(name, pa.string()) for name in chosen]))
        usable, rows = fields.read(pa.array([text], pa.binary()))
        assert usable.all()
        for name, value in own.items():
            plain = json.loads(value)
            wish = plain if isinstance(plain, str | None) else json.dumps(plain, separators=(",", ":"))
            assert rows[0][name].as_py() == wish


def nowhere(*positions):
    return np.zeros(len(positions[0]), np.bool_)


@pytest.mark.parametrize(
    ("what", "without", "event"),
    [
        ("marks.are_escaped", nowhere, [("c", '"c":', '"\\""', ""), ("a", '"a":', '"\\""', "")]),
        ("marks.Marks.depth_at", lambda _, at: np.ones(len(at)), [("c", '"c":', '{"a":1}', "")]),
        (
            "marks.Marks.with_escaped_names",
            lambda marks: nowhere(marks.starts),
            [("a", '"\\u0061":', "1", "")],
        ),
        ("values._ends", lambda _, begins, __: (begins + 1, ~nowhere(begins)), [("a", '"a":', "12", "")]),
    ],
)
def test_the_comparison_notices_what_is_not_looked_at(monkeypatch, what, without, event):
    parts = ("{", event, "}")
    array = pa.array([event_of(parts).encode()] * 3, pa.binary())

    def is_right_now():
        (made, *_) = replaced(array, np.ones(3, np.bool_), {"a": pa.array([b'"x"'] * 3)}).to_pylist()
        return is_right(made.decode(), parts, {"a": '"x"'})

    assert is_right_now()
    monkeypatch.setattr(f"{places.__name__}.{what}", without)
    assert not is_right_now()
