"""Many short texts in one piece of bytes, of which a reader takes out those that it needs without a look at the others:
where each one ends, in four bytes, and then all of them."""

import struct
from collections.abc import Sequence
from itertools import accumulate

_END = struct.Struct("<I")


def joined(texts: Sequence[bytes]) -> bytes:
    ends = accumulate(len(text) for text in texts)
    return struct.pack(f"<{len(texts)}I", *ends) + b"".join(texts)


def taken(raw: bytes, start: int, count: int, place: int) -> bytes:
    """The one at this place of `count` texts that begin at `start`. If the ends are damaged, none or a wrong one."""
    texts = start + _END.size * count
    if len(raw) < texts:
        return b""
    begin = _END.unpack_from(raw, start + _END.size * (place - 1))[0] if place else 0
    end = _END.unpack_from(raw, start + _END.size * place)[0]
    return raw[texts + begin : texts + end] if texts + end <= len(raw) else b""
