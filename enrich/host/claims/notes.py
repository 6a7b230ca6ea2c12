"""The notes that a table has with its positions, by which whoever goes on from there can tell what happened since."""

import json
from collections.abc import Mapping

from enrich.base.errors import CorruptState
from enrich.host.claims.moments import Moment, system_start
from stores.freshness import CLOCK_STEP_MS

TOPIC_ID = "topic_id"
"""Of which topic the positions are. Another id: the topic was deleted and made again."""
EPOCHS = "leader_epochs"
"""Of which leader's term (JSON) the last record of each partition is. With it the brokers tell that it was cut off."""
COMPLETE = "complete"
"""Up to when the rows are complete, with what the steady clock showed then and in which run of the system."""


def epochs_of(notes: Mapping[str, str]) -> dict[int, int]:
    """Partition -> leader's term. Raises CorruptState for notes of another form: a snapshot's may be anybody's."""
    try:
        return {int(partition): int(epoch) for partition, epoch in json.loads(notes.get(EPOCHS, "{}")).items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptState("the notes of a table cannot be read", next_step="load it from its topic") from error


def complete_note(moment: Moment) -> dict[str, str]:
    return {COMPLETE: f"{moment.wall_ms} {moment.steady_ms} {system_start()}"}


def complete_of(notes: Mapping[str, str], through_ms: int | None, now: Moment) -> Moment | None:
    """Up to when rows with these notes and this complete_through are complete. None where nobody knows: the clock was
    set back since, and the system started anew."""
    words = notes.get(COMPLETE, "").split()
    if len(words) == 3 and words[2] == system_start():
        return Moment(int(words[0]), int(words[1]))
    if through_ms is None or through_ms > now.wall_ms + CLOCK_STEP_MS:
        return None
    return Moment(through_ms, now.steady_ms - (now.wall_ms - through_ms))
