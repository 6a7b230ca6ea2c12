"""Events of every kind that a stage must bear, good and bad."""

import json
import random

BAD_EVENTS: tuple[bytes | None, ...] = (
    None,
    b"",
    b" ",
    b"null",
    b"true",
    b"[]",
    b'"text"',
    b"garbage",
    b"{",
    b'{"user_id":"ann"',
    b'{"user_id":"ann",}',
    b'{"user_id":"ann"}}',
    b'{"user_id":"ann"} x',
    b'{"user_id":"ann"}{"user_id":"bob"}',
    b'{"user_id":"ann"},{"user_id":"bob"}',
    b'{"user_id":"ann"}],"x":[{"user_id":"bob"}',
    b'{"user_id":"ann"}]} {"z":[{}',
    b'{"user_id":"ann"}]',
    b'{"user_id":"ann"}],[{"user_id":"bob"}',
    b'{"user_id":"ann"},{"user_id":"bob"},{"user_id":"ann"}',
    b'{"user_id":"ann","more":[{}',
    b"{'user_id':'ann'}",
    b'{user_id:"ann"}',
    b'{"user_id":"ann","n":NaN}',
    b'{"user_id":"ann","n":01}',
    b'{"user_id":"ann","t":"line\nbreak"}',
    b'{"user_id":"ann","more":[1,2}',
    b'{"user_id":"\xff"}',
    b'{"user_id":"ann","t":"\xed\xa0\x80"}',
    b'\xef\xbb\xbf{"user_id":"ann"}',
)
"""None of them is one JSON object in UTF-8."""

GOOD_SHAPES: tuple[bytes, ...] = (
    b"{}",
    b"{ \n}",
    b' {"user_id":"ann"}\r\n\t',
    b'{"user_id" : "ann" , "more":{"a":{}}}',
    b'{"user_id":"ann","n":1}',
    b'{"user_id":"ann","n":1e400,"m":-0.0}',
    b'{"user_id":"ann","list":[]}',
    b'{"user_id":"ann","t":true}',
    b'{"user_id":null}',
    b'{"user_id":"gone"}',
    '{"user_id":"ünï","text":"\\u0000 \\ud83d\\ude00 é"}'.encode(),
    b'{"user_id":"bob","user_id":"ann"}',
    b'{"user_id":5}',
    b'{"ts":"not a time","user_id":"ann","ip":"10.0.0.1"}',
)


def random_event(source: random.Random, keys: list[str]) -> bytes:
    """A good event with some of the fields, in any order, others between them."""
    event: dict[str, object] = {"id": source.randrange(10**9)}
    if source.random() < 0.9:
        event["user_id"] = source.choice([*keys, "nobody", None])
    if source.random() < 0.7:
        event["ip"] = source.choice([*keys, "10.1.2.3", None])
    if source.random() < 0.5:
        event["payload"] = {"text": "x" * source.randrange(200), "list": [1, None, {"a": "b"}]}
    names = list(event)
    source.shuffle(names)
    separators = source.choice([(",", ":"), (", ", ": ")])
    return json.dumps({name: event[name] for name in names}, separators=separators).encode()
