"""What the observer says of an event-time minute on each way through a pipeline, as it stands in the topic
`<pipeline>.minutes`: its record, how it is read, and what follows from it for a day.

May import `tally`, `kafka`, `config` and below. The observer writes it, the command line and its page read it.
"""

from enrich.verdict.days import Day, day_of, nines
from enrich.verdict.minute import HopVerdict, MinuteVerdict, State, Up, decoded, encoded, key_of, minute_text

__all__ = [
    "Day",
    "HopVerdict",
    "MinuteVerdict",
    "State",
    "Up",
    "day_of",
    "decoded",
    "encoded",
    "key_of",
    "minute_text",
    "nines",
]
