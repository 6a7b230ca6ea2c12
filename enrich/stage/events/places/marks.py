"""The strings and brackets of JSON events, found in all bytes of a batch at once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from enrich.codecs.json.shape import are_escaped
from enrich.codecs.rows import extents
from enrich.stage.task.fate import Mask

Positions = npt.NDArray[np.int64]

_MOST_STEPS = 64
"""White space and numbers are walked over byte by byte, for all events at once. Events with longer ones are left to
others, or one event would hold up all."""
WHITE_SPACE = np.zeros(256, np.bool_)
WHITE_SPACE[list(b" \t\r\n")] = True


@dataclass(frozen=True)
class Marks:
    """Of usable events only: what is no JSON would be misread, and with it all events that follow. Positions are those
    in `content`."""

    content: npt.NDArray[np.uint8]
    starts: Positions
    """Of the events."""
    opens: Positions
    """The first quotes of all strings."""
    closes: Positions
    backslashes: Positions

    @classmethod
    def of(cls, events: pa.BinaryArray) -> "Marks":
        data, starts, ends = extents(events)
        begin = int(starts[0])
        content = data[begin : int(ends[-1])]
        quotes, backslashes = np.flatnonzero(content == ord('"')), np.flatnonzero(content == ord("\\"))
        quotes = quotes[~are_escaped(quotes, backslashes)]
        return cls(content, starts - begin, quotes[0::2], quotes[1::2], backslashes)

    def rows_of(self, positions: Positions) -> Positions:
        return np.searchsorted(self.starts, positions, "right") - 1

    @cached_property
    def brackets(self) -> tuple[Positions, Positions]:
        """The brackets outside of strings, and how deep each leads, or leads back to."""
        without_case = self.content | 0x20  # [ and { become the same, and so do ] and }
        positions = np.flatnonzero((without_case == ord("{")) | (without_case == ord("}")))
        before = np.searchsorted(self.opens, positions)
        is_inside = before > np.searchsorted(self.closes, positions)
        positions = positions[~is_inside]
        return positions, np.cumsum((self.content[positions] & 2).astype(np.int64) - 1)  # `& 2` is 2 if it opens

    def depth_at(self, positions: Positions) -> Positions:
        brackets, depths = self.brackets
        return depths[np.searchsorted(brackets, positions) - 1]

    def with_escaped_names(self) -> Mask:
        """Events with a name that is written with a backslash: it may be any name."""
        is_odd = np.zeros(len(self.starts), np.bool_)
        if len(self.backslashes):
            strings = np.unique(np.searchsorted(self.opens, self.backslashes) - 1)
            after, is_known = self.walk(self.closes[strings] + 1, ~WHITE_SPACE)
            is_odd[self.rows_of(self.opens[strings[~is_known | (self.content[after] == ord(":"))]])] = True
        return is_odd

    def walk(self, positions: Positions, stops: Mask) -> tuple[Positions, Mask]:
        """From each position on, the first with a byte that stops; and which were found within `_MOST_STEPS`."""
        positions = positions.copy()
        going = np.flatnonzero(~stops[self.content[positions]])
        for _ in range(_MOST_STEPS):
            if not len(going):
                break
            positions[going] += 1
            going = going[~stops[self.content[positions[going]]]]
        is_known = np.ones(len(positions), np.bool_)
        is_known[going] = False
        return positions, is_known
