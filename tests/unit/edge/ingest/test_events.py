"""A body is taken apart into the sender's own bytes, and nothing that is not strict JSON gets through."""

import json
import tracemalloc
from http import HTTPStatus

import pytest

from edge_service.ingest.reading.events import JsonEvents, Shape
from edge_service.ingest.reading.quick import QuickReader
from edge_service.ingest.reading.refusals import Refused
from tests.support.seed import random_source, rounds


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
        (b"[" * 15_000, "deeper"),
        (b'{"a": ' + b"[" * 15_000, "deeper"),
        (b"[]", "no event"),
        (b"", "not JSON"),
    ],
)
def test_what_is_not_strict_json_is_refused_whole(body, what):
    refused = refusal(body)
    assert refused.status == HTTPStatus.BAD_REQUEST
    assert what in refused.what


@pytest.mark.parametrize("shape", [*Shape])
def test_of_plain_events_brackets_are_counted_as_of_others(shape):
    reader = JsonEvents(None, None, 10)
    reader.read(b'{"a": ' + b"[" * 127 + b"]" * 127 + b"}", shape)
    with pytest.raises(Refused, match="deeper than 128"):
        reader.read(b'{"a": ' + b"[" * 128 + b"]" * 128 + b"}", shape)


def test_brackets_within_text_are_no_depth():
    text = "[{" * 200
    assert read(f'{{"device": {{"id": 1}}, "ts": 1, "text": "{text}\\""}}').bad == []


def test_too_many_events_are_refused_before_they_are_looked_at():
    assert refusal("[" + ",".join(["{}"] * 101) + "]").status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert refusal("{}\n" * 101, Shape.lines).status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


@pytest.mark.parametrize("piece", ["{},", "[],", "1,", "\n", '"",', '{"a":{}},'])
@pytest.mark.parametrize("shape", list(Shape))
def test_a_body_of_very_many_values_is_refused_before_they_are_made(piece, shape):
    body = "[" + piece * 200_000 + "1]"
    tracemalloc.start()
    try:
        assert refusal(body, shape, most=1000).status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        assert tracemalloc.get_traced_memory()[1] < 3 * len(body)
    finally:
        tracemalloc.stop()
    assert read(f"[{GOOD}{f',{GOOD}' * 999}]", most=1000).bad == []


@pytest.mark.parametrize(
    "lines",
    ['{"a": [1\n2]}', '{"a": [1\n2]},{"b": 1}', '{"a":\n1}', "{}\n{},{}", '{}\n{"a": 1, "a": 2}', "{}\n[", "{}\nx"],
)
def test_a_line_that_is_no_value_by_itself_is_refused(lines):
    assert refusal(lines, Shape.lines).status == HTTPStatus.BAD_REQUEST


_BODIES = [
    b'[{"u":"a","t":5,"a":[1,2.5e3,-0.1,"x\\u00e9\\n"],"b":{"c":null}},{"u":1,"t":"2026-11-24T03:00:00.5Z","d":true}]',
    b'{"u":true,"t":-12,"k":[],"n":-12.5E+3}',
    b'{"u":"x","t":1,"v":{"v":{"v":{"vv":1,"vvvvvvvvvvvv":2,"vvvvvvvv":[{"v":1},{"v":1}]}}},"l":"\\ud83d\\ude00 end"}',
    '[{"u":"ä","t":9,"ü":"日本語"},{"t":3,"u":"\\u00e4","x":"\\\\","y":"\\""}]'.encode(),
    b'{"u":1,"t":1}\n{"u":2,"t":2,"z":[{"a":1,"b":2}]}\r\n\n {"u":3,"t":3}',
]
_BYTES = b'{}[]",:\\0123456789eE+-.ntfalsrud \n\r\t\x00\x01\x1f\x7f\x80\xff\xc3\xa4\xed\xa0\xf0'
_PIECES = [
    *(
        b'"u":1,',
        b'"t":2,',
        b'"\\u0075":1,',
        b"\\ud800",
        b"\\udc00",
        b"null",
        b"true",
        b"NaN",
        b"Infinity",
        b"{}",
        b"[]",
    ),
    *(b'{"a":1}', b"1e400", b"-0", b"0.0", b'"":1,', b"9" * 30, b"\n", b",", b'"a":1,"a":2', b"[[[[", b"\xef\xbb\xbf"),
]


def _mutated(source):
    body = bytearray(source.choice(_BODIES))
    for _ in range(source.choice((0, 1, 1, 1, 2, 2, 3))):
        where = source.randrange(len(body) + 1)
        end = min(len(body), where + source.randrange(1, 15))
        match source.randrange(5):
            case 0:
                body[where : where + 1] = bytes([source.choice(_BYTES)])
            case 1:
                del body[where:end]
            case 2:
                body.insert(where, source.choice(_BYTES))
            case 3:
                body[where:where] = source.choice(_PIECES)
            case _:
                body[where:where] = body[where:end]
    return bytes(body)


def test_random_bodies_are_taken_and_refused_as_pythons_parser_does():
    source = random_source("json bodies")
    taken = quickly = 0
    for _ in range(rounds(15_000, 2_000_000)):
        body = _mutated(source)
        shape = source.choice(list(Shape))
        judge = JsonEvents(None, None, 100)
        try:
            found = [json.loads(value) for value in judge.read(body, shape).values]
        except Refused:
            found = None
        expected = _events(body, shape)
        assert found == expected, (body, shape)
        taken += found is not None
        quickly += found is not None and judge._quick.read(body, is_lines=shape is Shape.lines) is not None
    assert 0.05 < taken / rounds(15_000, 2_000_000) < 0.6
    assert quickly > taken / 2


def test_what_is_read_quickly_is_what_is_read_exactly():
    """Keys, times, and each word of a refusal."""

    def outcome(read, *arguments):
        try:
            events = read(*arguments)
        except Refused as refused:
            return refused.status, refused.what
        return list(events.values), list(events.keys), list(events.times_ms), list(events.bad)

    source = random_source("quick bodies")
    fields = [(("u",), ("t",)), (("b", "c"), ("t",)), (("u",), ("u",)), (("b",), ("b", "c")), (("v", "v", "t"), ("t",))]
    readers = [JsonEvents(key, event_time, 3) for key, event_time in fields]
    quickly = 0
    for _ in range(rounds(15_000, 2_000_000)):
        body = _mutated(source)
        try:
            text = body.decode()
        except UnicodeDecodeError:
            continue
        judge, shape = source.choice(readers), source.choice(list(Shape))
        assert outcome(judge.read, body, shape) == outcome(judge.read_exactly, body, text, shape), (body, shape)
        quickly += judge._quick.read(body, is_lines=shape is Shape.lines) is not None
    assert quickly > rounds(200, 40_000)


@pytest.mark.parametrize(
    ("text", "is_quick"),
    [
        ('{"a": 1, "b": {"a": 1, "b": [{"a": 1}, {"a": 1}]}}', True),
        ('{"a": "a", "b": "a:b", "c": "2026-11-24T03:00:00Z"}', True),
        ('{"a" : 1, "b" : 2}', True),
        ('{"a": 1, "b": {}, "a": 1}', False),
        ('{"a":1, "a" :1}', False),
        ('{"b":{"a":1, "a":1}}', False),
        ('{"b":[[{"a":1, "a":1}]]}', False),
        ('{"a":"x:", "b":1, "b":1}', False),
        ('{"\\u0061":1, "a":1}', False),
        ('{"\\u0061":1, "b":1}', True),
        ('{"a" : "x:y"}', False),  # in doubt
        ('{"a": ' + "[" * 126 + "]" * 126 + "}", True),
        ('{"a": ' + "[" * 200 + "]" * 200 + "}", False),
        ('{"a": ' + "9" * 5000 + "}", False),
    ],
)
def test_what_may_have_a_name_twice_is_not_read_quickly(text, is_quick):
    reader = QuickReader(None, None, 10)
    assert (reader.read(text.encode(), is_lines=False) is not None) is is_quick
    assert (reader.read(text.encode(), is_lines=True) is not None) is is_quick


def _events(body, shape):
    """What Python's parser makes of it; None where it refuses it."""

    def unique(pairs):
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a name twice")
        return dict(pairs)

    try:
        body.decode().encode("utf-16")
        texts = body.decode().split("\n") if shape is Shape.lines else [body.decode()]
        parsed = [
            json.loads(text, object_pairs_hook=unique, parse_constant=lambda _: 1 / 0)
            for text in texts
            if text.strip(" \t\r") or shape is Shape.json
        ]
        json.dumps(parsed, ensure_ascii=False).encode()  # no half of a surrogate pair
    except (ValueError, ZeroDivisionError):
        return None
    events = parsed[0] if shape is Shape.json and isinstance(parsed[0], list) else parsed
    return events or None
