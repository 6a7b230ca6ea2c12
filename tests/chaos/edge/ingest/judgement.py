"""What ingest promises of when a record is written, and how often: judged by what senders and the topic say of it."""

from collections.abc import Mapping, Sequence

_LATE_S = 1.0
"""So long after its deadline a record may still be written."""
_GIVEN_UP_S = 5.0
"""So long after its deadline a client may give up a record that has timed out. Two seconds were seen where a broker was
away for some."""
_APART_S = 0.1
"""What the times of a sender, of the client and of a broker may differ by."""

Written = Mapping[int, Sequence[float]]
"""When each id was written, in order."""


def late_ones(
    written: Written, began: Mapping[int, float], deadline_s: float, thaws: Sequence[float] = ()
) -> dict[int, float]:
    """The ids that were written, once or again, later than a second after their deadline, and how long after their
    request began. Not those that a broker wrote as it went on after it was frozen: it had received them before."""
    most = deadline_s + _LATE_S
    return {
        one: times[-1] - began[one]
        for one, times in written.items()
        if times[-1] > began[one] + most and not any(began[one] < thaw and times[-1] < thaw + most for thaw in thaws)
    }


def needless_copies(
    written: Written, began: Mapping[int, float], refused: Mapping[int, float], deadline_s: float
) -> dict[int, Sequence[float]]:
    """The ids that are there more than once, though no record timed out while they were under way.

    After a record has timed out the client numbers all anew that it still has, and brokers do not recognise what they
    already have. As long as none does, nothing may be there twice, whatever happened to brokers and connections.
    `refused`: when the requests began that got a 503, by the ids of their events.
    """
    starts = set(refused.values())
    return {
        one: times
        for one, times in written.items()
        if len(times) > 1
        and not any(
            began[one] < start + deadline_s + _GIVEN_UP_S and start + deadline_s < times[-1] + _APART_S
            for start in starts
        )
    }
