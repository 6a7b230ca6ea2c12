"""A body is taken apart into the sender's own bytes, and nothing that is not strict JSON gets through."""

import json
import random
from http import HTTPStatus

import pytest

from edge_service.ingest.events import JsonEvents, Shape
from edge_service.ingest.refusals import Refused


def reader(most=100):
    return JsonEvents(("device", "id"), ("ts",), most)


def read(body, shape=Shape.json, **how):
    return reader(**how).read(body if isinstance(body, bytes) else body.encode(), shape)


def refusal(body, shape=Shape.json, **how):
    with pytest.raises(Refused) as raised:
        read(body, shape, **how)
    return raised.value


GOOD = '{"device": {"id": "d1"}, "ts": 5}'


def test_each_event_keeps_the_bytes_that_its_sender_wrote():
    odd = '{ "ts":5.0e1 ,"ts2":"\\u00e4ä", "device":{"id":"x"}, "n":1.10}'
    events = read(f" [{odd.replace('5.0e1', '50')} ,\n{GOOD}] ")
    assert events.values == [odd.replace("5.0e1", "50").encode(), GOOD.encode()]
    assert events.keys == [b"x", b"d1"]
    assert events.times_ms == [50, 5]
    assert read(f"\n {GOOD} ").values == [GOOD.encode()]
    assert read(f"{GOOD}\r\n\n {GOOD} \n", Shape.lines).values == [GOOD.encode()] * 2


@pytest.mark.parametrize(
    ("value", "key"),
    [('"ä"', "ä".encode()), ("7", b"7"), ("-12345678901234567890", b"-12345678901234567890"), ("true", b"true")],
)
def test_a_key_is_the_text_of_its_field(value, key):
    assert read(f'{{"device": {{"id": {value}}}, "ts": 1}}').keys == [key]


@pytest.mark.parametrize(
    ("text", "ms"),
    [("0", 0), ('"1970-01-01T00:00:01Z"', 1000), ('"2026-11-24T03:00:00.5+01:00"', 1_795_485_600_500), ("-1", -1)],
)
def test_an_event_time_is_milliseconds_or_text_with_a_zone(text, ms):
    assert read(f'{{"device": {{"id": 1}}, "ts": {text}}}').times_ms == [ms]


def test_bad_events_are_named_with_their_field():
    bad = read(
        '[{"ts": 1}, {"device": {"id": 1.5}, "ts": 1}, {"device": {"id": 1}, "ts": "2026-01-01T00:00:00"}, 5,'
        ' {"device": {"id": null}, "ts": 1}, {"device": 3, "ts": 1}, {"device": {"id": 1}, "ts": 99999999999999999}]'
    ).bad
    assert [(each.index, each.field) for each in bad] == [
        (0, "device.id"),
        (1, "device.id"),
        (2, "ts"),
        (3, None),
        (4, "device.id"),
        (5, "device.id"),
        (6, "ts"),
    ]


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b'[{"a": 1}', "not JSON"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b'{"a": 1, "a": 2}', "a name twice"),
        (b'[{"b": {"a": 1, "\\u0061": 2}}]', "a name twice"),
        (b'{"a": "\xff"}', "not UTF-8 text: byte 7"),
        (b'{"a": 1} {"b": 2}', "not JSON"),
        (b'[{"a": 1}] x', "not JSON"),
        (b'[{"a": "\\ud800"}]', "half of a surrogate pair"),
        (b'[{"a": 01}]', "not JSON"),
        (b'[{"a": ' + b"9" * 5000 + b"}]", "not strict JSON"),
        (b'[{"a": ' + b"[" * 200 + b"]" * 200 + b"}]", "deeper than 128"),
        (b'{"device": {"id": "\\udc00"}}', "half of a surrogate pair"),
        (b"[" * 100_000, "deeper"),
        (b'{"a": ' + b"[" * 100_000, "deeper"),
        (b"[]", "no event"),
        (b"", "not JSON"),
    ],
)
def test_what_is_not_strict_json_is_refused_whole(body, what):
    refused = refusal(body)
    assert refused.status == HTTPStatus.BAD_REQUEST
    assert what in refused.what


def test_brackets_within_text_are_no_depth():
    text = "[{" * 200
    assert read(f'{{"device": {{"id": 1}}, "ts": 1, "text": "{text}\\""}}').bad == []


def test_too_many_events_are_refused_before_they_are_looked_at():
    assert refusal("[" + ",".join(["{}"] * 101) + "]").status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert refusal("{}\n" * 101, Shape.lines).status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


@pytest.mark.parametrize(
    "lines",
    ['{"a": [1\n2]}', '{"a": [1\n2]},{"b": 1}', '{"a":\n1}', "{}\n{},{}", '{}\n{"a": 1, "a": 2}', "{}\n[", "{}\nx"],
)
def test_a_line_that_is_no_value_by_itself_is_refused(lines):
    assert refusal(lines, Shape.lines).status == HTTPStatus.BAD_REQUEST


def test_random_bodies_are_taken_and_refused_as_pythons_parser_does():
    source = random.Random(17)
    taken = 0
    for _ in range(30_000):
        body = bytearray(
            source.choice([b'[{"a":[1,2.5e3,-0.1,"x\\u00e9\\n"],"b":{"c":null}},{"d":true}]', b'{"k":[],"n":-12.5E+3}'])
        )
        for _ in range(source.randint(0, 2)):
            where = source.randrange(len(body))
            match source.randrange(3):
                case 0:
                    body[where] = source.choice(b'{}[]",:\\0123456789eE+-.ntf \n\x01\x80\xff\xc3')
                case 1:
                    del body[where]
                case _:
                    body.insert(where, source.choice(b'{}[]",:\\0123456789eE+-.ntfu\x01'))
        expected = _events(bytes(body))
        try:
            found = [json.loads(value) for value in JsonEvents(None, None, 100).read(bytes(body), Shape.json).values]
        except Refused:
            found = None
        assert found == expected, bytes(body)
        taken += found is not None
    assert 5_000 < taken < 25_000


def _events(body):
    """What Python's parser makes of it; None where it refuses it."""

    def unique(pairs):
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a name twice")
        return dict(pairs)

    try:
        parsed = json.loads(body.decode(), object_pairs_hook=unique, parse_constant=lambda _: 1 / 0)
    except (ValueError, ZeroDivisionError):
        return None
    return (parsed or None) if isinstance(parsed, list) else [parsed]
