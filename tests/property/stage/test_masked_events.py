"""Masked events beside a plain model: Python's parser, and HMAC from the standard library."""

import hmac
import json
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from enrich.config import Masking, TopicMasks
from enrich.stage.events.fields import EventFields
from enrich.stage.masking.events import UNREADABLE, masked_events

KEY = b"a secret of some length"
MASKS = {
    "shown": Masking.show,
    "withheld": Masking.withhold,
    "nothing": Masking.null,
    "redacted": Masking.redact,
    "card": Masking.partial,
    "email": Masking.hmac,
    "": Masking.hmac,
    'q"uote': Masking.redact,
}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from([*MASKS, "unknown", "Email"]) | TEXTS
SPACES = st.sampled_from(["", "", "", " ", "\n\t", " " * 80])


@st.composite
def event_texts(draw: st.DrawFn) -> str:
    """Objects as people write them: escapes, spaces, names that occur twice."""
    members = []
    for _ in range(draw(st.integers(0, 5))):
        name = json.dumps(draw(NAMES), ensure_ascii=draw(st.booleans()))
        if draw(st.integers(0, 9)) == 0:
            name = '"' + "".join(f"\\u{ord(one):04x}" for one in json.loads(name) if ord(one) < 2**16) + '"'
        value = json.dumps(draw(VALUES), ensure_ascii=draw(st.booleans()))
        members.append(f"{draw(SPACES)}{name}{draw(SPACES)}:{draw(SPACES)}{value}{draw(SPACES)}")
    return f"{draw(SPACES)}{{{','.join(members) or draw(SPACES)}}}{draw(SPACES)}"


EVENTS = st.lists(
    event_texts().map(str.encode) | st.sampled_from([None, b"", b"[1]", b'{"email":', b"\xff"]), max_size=6
)


def model(event: bytes | None) -> list[tuple[str, Any]] | bytes | None:
    """Its members, since a name may occur twice."""
    if event is None:
        return None
    try:
        pairs = json.loads(event, object_pairs_hook=_Pairs, parse_int=_Raw)
    except ValueError:
        return UNREADABLE
    if not isinstance(pairs, _Pairs):
        return UNREADABLE
    raw = members_as_written(event.decode())
    found = []
    for (name, value), text in zip(pairs, raw, strict=True):
        masking = MASKS.get(name, Masking.withhold)
        if masking is Masking.withhold:
            continue
        found.append((name, _masked(value, text, masking)))
    return found


class _Pairs(list[tuple[str, Any]]):
    pass


class _Raw(str):
    __slots__ = ()


def _masked(value: Any, text: str, masking: Masking) -> Any:
    if masking is Masking.show:
        return json.loads(text)
    if value is None or masking is Masking.null:
        return None
    plain = value if isinstance(value, str) else text
    if masking is Masking.redact:
        return "***"
    if masking is Masking.partial:
        return "****" + (plain[-4:] if len(plain) >= 8 else "")
    return hmac.digest(KEY, plain.encode(), "sha256").hex()


def members_as_written(event: str) -> list[str]:
    decoder = json.JSONDecoder()
    texts: list[str] = []
    place = event.index("{") + 1
    while True:
        place = _after(event, place)
        if event[place] == "}":
            return texts
        _, place = decoder.raw_decode(event, place)
        begin = _after(event, _after(event, place) + 1)
        _, place = decoder.raw_decode(event, begin)
        texts.append(event[begin:place])
        place = _after(event, place)
        if event[place] == ",":
            place += 1


def _after(text: str, place: int) -> int:
    while text[place] in " \t\r\n":
        place += 1
    return place


@given(EVENTS)
def test_masked_events_have_what_the_model_has_and_nothing_else(events):
    column = pa.array(events, pa.binary())
    usable, _ = EventFields(pa.schema([])).read(column)
    masks = TopicMasks((("some", MASKS),), Masking.withhold)
    made = masked_events(column, np.array(usable), masks, KEY).to_pylist()
    for event, one in zip(events, made, strict=True):
        wanted = model(event)
        if isinstance(wanted, list):
            assert list(json.loads(one, object_pairs_hook=lambda pairs: _Pairs(pairs))) == [
                (name, _plain(value)) for name, value in wanted
            ]
        else:
            assert one == wanted, event


def _plain(value: Any) -> Any:
    """With inner objects as pairs, as they are compared."""
    if isinstance(value, dict):
        return _Pairs((name, _plain(each)) for name, each in value.items())
    return [_plain(each) for each in value] if isinstance(value, list) else value
