"""The notes stored with a table's positions. From them the next agent can find out what happened since."""

import json
from collections.abc import Mapping

from enrich.base.errors import CorruptState
from enrich.host.claims.moments import Moment
from stores.clock import boot_id
from stores.freshness import CLOCK_STEP_MS

TOPIC_ID = "topic_id"
"""The id of the topic that the positions belong to. Another id means: the topic was deleted and recreated."""
EPOCHS = "leader_epochs"
"""The leader epoch of each partition's last record (JSON). With it the brokers detect that the record was truncated."""
COMPLETE = "complete"
"""Up to when the rows are complete: on the system's clock, on the steady clock, and the boot id."""


def epochs_of(notes: Mapping[str, str]) -> dict[int, int]:
    """Partition -> leader epoch. Raises CorruptState for malformed notes: those of a snapshot are not trusted."""
    try:
        return {int(partition): int(epoch) for partition, epoch in json.loads(notes.get(EPOCHS, "{}")).items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptState("the notes of a table cannot be read", next_step="load it from its topic") from error


def complete_note(moment: Moment) -> dict[str, str]:
    return {COMPLETE: f"{moment.wall_ms} {moment.steady_ms} {boot_id()}"}


def complete_of(notes: Mapping[str, str], through_ms: int | None, now: Moment) -> Moment | None:
    """Up to when rows with these notes and this complete_through are complete. None if that is unknown: the system was
    restarted and its clock was set back since."""
    words = notes.get(COMPLETE, "").split()
    if len(words) == 3 and words[2] == boot_id():
        return Moment(int(words[0]), int(words[1]))
    if through_ms is None or through_ms > now.wall_ms + CLOCK_STEP_MS:
        return None
    return Moment(through_ms, now.steady_ms - (now.wall_ms - through_ms))
