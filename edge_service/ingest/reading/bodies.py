"""Makes the body of a request plain bytes, whatever it is compressed with, and never more of them than allowed."""

import zlib
from collections.abc import Callable, Mapping
from http import HTTPStatus

import brotli  # type: ignore[import-untyped] # it has no types
import zstandard

from edge_service.ingest.reading.refusals import Refused

_GZIP = 16 + zlib.MAX_WBITS
_ZSTD_WINDOW = 8 << 20
"""The largest window that RFC 8878 asks a decoder to support: a frame may ask for gigabytes."""

_Inflate = Callable[[bytes, int], bytes]


class _TooLarge(Exception):
    pass


class _Damaged(Exception):
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
    except _Damaged:
        raise Refused(HTTPStatus.BAD_REQUEST, f"the body is not what its content coding says: {coding}") from None


def _gzip(body: bytes, most: int) -> bytes:
    pieces: list[bytes] = []
    left = most
    rest = body
    while rest:  # a body may have several members
        member = zlib.decompressobj(_GZIP)
        try:
            piece = member.decompress(rest, left + 1)
        except zlib.error as error:
            raise _Damaged from error
        if len(piece) > left:
            raise _TooLarge
        if not member.eof:
            raise _Damaged
        pieces.append(piece)
        left -= len(piece)
        rest = member.unused_data
    if not pieces:
        raise _Damaged
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
    whole = b"".join(pieces)
    if not _is_whole_zstd(body):
        raise _Damaged
    return whole


def _is_whole_zstd(body: bytes) -> bool:
    """Whether the last frame is complete. The reader takes a frame that is cut off for its end."""
    rest = body
    while rest:
        frame = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
        try:
            frame.decompress(rest)
        except zstandard.ZstdError:
            return False
        if not frame.eof:
            return False
        rest = frame.unused_data
    return bool(body)


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
