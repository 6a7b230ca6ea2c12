"""What a node says of the events that it has handled: which came, what became of each, and how late they were.

`Origins` are exact sets, `Histogram` and `Lags` say how late, a `Tally` is both for one route and minute, and a
`Report` is what a node says at once. `encoding` makes bytes of it, `merging` adds reports up, whatever their order and
however often they come.

May import `kafka`, `config` and below. Used by stages, write-back, ingest, expel and the retrier, and by whoever judges
them.
"""

from enrich.tally.encoding import decoded, encoded, key_of
from enrich.tally.histogram import Histogram
from enrich.tally.lags import Lags, minute_of
from enrich.tally.merging import Merged, MergedTally
from enrich.tally.origins import Origins
from enrich.tally.report import NO_MINUTE, Node, NodeKind, Report, Tally

__all__ = [
    "NO_MINUTE",
    "Histogram",
    "Lags",
    "Merged",
    "MergedTally",
    "Node",
    "NodeKind",
    "Origins",
    "Report",
    "Tally",
    "decoded",
    "encoded",
    "key_of",
    "minute_of",
]
