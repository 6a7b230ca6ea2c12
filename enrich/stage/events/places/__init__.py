"""Where the members of JSON events are, in the bytes of a whole batch: found with numpy, without a parser.

`marks` finds strings and brackets, `values` the values of members. For the modules of `events` beside it.
"""

from enrich.stage.events.places.marks import Marks, Positions
from enrich.stage.events.places.values import Spans, Values, entries, found, pieces_of, top_level

__all__ = ["Marks", "Positions", "Spans", "Values", "entries", "found", "pieces_of", "top_level"]
