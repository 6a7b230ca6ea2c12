"""Whether the quotes of a CSV file close where values end. Arrow takes all that follows an open one as its value."""

import re
from pathlib import Path

_WINDOW = 8 << 20
"""More than a value that Arrow reads: two of its blocks."""
_PIECE = 1 << 20
"""The interpreter is held for as long as a piece takes: some ms."""
_BOM = b"\xef\xbb\xbf"

# A quote opens a value only at its start. As with Arrow something may follow the one that closes it, but not if the
# value has lines: then the quote is most likely the first one of a later value, and what is between them are rows.
# Without backtracking, and never up to the end of what was read: of two quotes only one may be there.
_CLOSED = re.compile(
    rb"""(?:
        [^"]++
        | (?<=[,\n\r]) " [^"]*+ (?:""[^"]*+)*+ " (?=[,\n\r])
        | (?<=[,\n\r]) " [^"\n\r]*+ (?:""[^"\n\r]*+)*+ " (?=[^",\n\r])
        | (?<![,\n\r]) "
    )*+""",
    re.VERBOSE,
)


def open_quote(path: Path) -> int | None:
    """The line in which a value begins whose quote is not closed at its end. For a file that ends with a line break."""
    line, before = 1, b"\n"
    with path.open("rb") as file:
        place = len(_BOM) if file.read(len(_BOM)) == _BOM else 0
        size = _PIECE
        while True:
            file.seek(place)
            data = before + file.read(size)
            if len(data) == 1:
                return None
            end = len(data) if b'"' not in data else _closed(data)
            if end > 1:
                line += data.count(b"\n", 1, end)
                place, before, size = place + end - 1, data[end - 1 : end], _PIECE
            elif size < _WINDOW and len(data) > size:
                size = _WINDOW
            else:
                return line


def _closed(data: bytes) -> int:
    """Up to where all quotes are closed. The first byte is the one before."""
    found = _CLOSED.match(data, 1)
    return found.end() if found else 1
