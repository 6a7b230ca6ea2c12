"""Makes the body of a request plain bytes, whatever it is compressed with, and never more of them than allowed."""

import zlib
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

import brotli  # type: ignore[import-untyped] # it has no types
import zstandard

from edge_service.ingest.reading.refusals import Refused

_GZIP = 16 + zlib.MAX_WBITS
_ZSTD_WINDOW = 8 << 20
"""The largest window that RFC 8878 asks a decoder to support: a frame may ask for gigabytes."""

_MOST_PARTS = 64
"""Members or frames that a body may have: an empty one takes a few bytes to send, and much longer to read."""
_WINDOW = 1 << 16
"""Bytes that are inflated at once: what lies behind the end of a part is copied."""

_Inflate = Callable[[bytes, int], bytes]


class _TooLarge(Exception):
    pass


class _Damaged(Exception):
    pass


class _TooManyParts(Exception):
    pass


def plain(body: bytes, coding: str, most: int) -> bytes:
    """The body without its content coding. `most`: how many bytes it may have then. Raises Refused."""
    coding = coding.strip().lower()
    if coding in ("", "identity"):
        return body
    inflate = _CODINGS.get(coding)
    if inflate is None:
        raise Refused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"the content coding must be one of {', '.join(sorted(set(_CODINGS) - {'x-gzip'}))}",
        )
    try:
        return inflate(body, most)
    except _TooLarge:
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body inflates to more than {most} bytes") from None
    except _TooManyParts:
        what = f"the body has more than {_MOST_PARTS} members or frames: compress it as one"
        raise Refused(HTTPStatus.BAD_REQUEST, what) from None
    except _Damaged:
        raise Refused(HTTPStatus.BAD_REQUEST, f"the body is not what its content coding says: {coding}") from None


def _parts(body: bytes, begin: Callable[[], Any], inflate: Callable[[Any, memoryview], bytes]) -> Iterator[bytes]:
    """What the members or frames of a body inflate to, piece by piece. `begin` makes what inflates one of them. Raises
    _TooManyParts, and _Damaged if there is none, or the last one is cut off."""
    view, at, parts = memoryview(body), 0, 0
    while at < len(body) or not parts:
        parts += 1
        if parts > _MOST_PARTS:
            raise _TooManyParts
        part = begin()
        while not part.eof:
            window = view[at : at + _WINDOW]
            if not window:
                raise _Damaged
            try:
                yield inflate(part, window)
            except (zlib.error, zstandard.ZstdError) as error:
                raise _Damaged from error
            at += len(window) - len(part.unused_data)


def _gzip(body: bytes, most: int) -> bytes:
    pieces: list[bytes] = []
    left = most
    members = _parts(body, lambda: zlib.decompressobj(_GZIP), lambda member, some: member.decompress(some, left + 1))
    for piece in members:
        if len(piece) > left:
            raise _TooLarge
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _zstd(body: bytes, most: int) -> bytes:
    pieces: list[bytes] = []
    left = most
    reader = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).stream_reader(body, read_across_frames=True)
    try:
        while piece := reader.read(min(left + 1, 1 << 20)):
            if len(piece) > left:
                raise _TooLarge
            pieces.append(piece)
            left -= len(piece)
    except zstandard.ZstdError as error:
        raise _Damaged from error
    # The reader takes a frame that is cut off for its end. This has no bound of its own, and needs none any more.
    for _ in _parts(body, _new_frame, lambda frame, some: frame.decompress(some)):
        pass
    return b"".join(pieces)


def _new_frame() -> Any:
    return zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()


def _brotli(body: bytes, most: int) -> bytes:
    decompressor = brotli.Decompressor()
    try:
        whole = decompressor.process(body, output_buffer_limit=most + 1)
        while len(whole) <= most and not decompressor.is_finished() and not decompressor.can_accept_more_data():
            whole += decompressor.process(b"", output_buffer_limit=most + 1 - len(whole))
    except brotli.error as error:
        raise _Damaged from error
    if len(whole) > most:
        raise _TooLarge
    if not decompressor.is_finished():
        raise _Damaged
    return bytes(whole)


_CODINGS: Mapping[str, _Inflate] = {"gzip": _gzip, "x-gzip": _gzip, "zstd": _zstd, "br": _brotli}
