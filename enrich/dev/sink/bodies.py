"""Takes the body of a request apart, as far as counting its events needs it."""

import zlib

import msgspec

_GZIP = 16 + zlib.MAX_WBITS
MOST_INFLATED = 64 << 20

_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_ANY = msgspec.json.Decoder(msgspec.Raw)


class Unreadable(Exception):
    """The body is not what its headers say."""


def inflated(body: bytes, coding: bytes) -> bytes:
    """Raises Unreadable."""
    if coding in (b"", b"identity"):
        return body
    if coding != b"gzip":
        raise Unreadable
    inflater = zlib.decompressobj(_GZIP)
    try:
        plain = inflater.decompress(body, MOST_INFLATED)
    except zlib.error:
        raise Unreadable from None
    if not inflater.eof or inflater.unused_data:
        raise Unreadable
    return plain


def count_events(body: bytes, kind: bytes) -> int:
    """By the media type: lines of NDJSON, elements of an array, else one. Raises Unreadable for what is no JSON."""
    try:
        if b"ndjson" in kind:
            lines = [line for line in body.split(b"\n") if line]
            for line in lines:
                _ANY.decode(line)
            return len(lines)
        if b"json" in kind:
            if body.lstrip()[:1] == b"[":
                return len(_ARRAY.decode(body))
            _ANY.decode(body)
    except (msgspec.DecodeError, RecursionError):  # the latter: nested too deeply
        raise Unreadable from None
    return 1
