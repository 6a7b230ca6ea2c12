"""The end of a move: records that the table has moved, so that a late writer is noticed."""

from enrich.admin.cluster import Cluster
from enrich.admin.moves.move import Route
from enrich.admin.moves.verifying import Verified
from enrich.admin.topics.notes import Note, ensure_notes_topic, write_notes


def record_move(cluster: Cluster, route: Route, verified: Verified, old_format: str, new_format: str) -> None:
    """From now on `enrich topics check` of the old topic reports if somebody still writes there."""
    ensure_notes_topic(cluster)
    ends = {str(partition): offset for partition, offset in verified.ends.items()}
    notes = {
        route.target: Note(cluster.topics.topic_id(route.target), new_format),
        route.source: Note(cluster.topics.topic_id(route.source), old_format, route.target, ends),
    }
    write_notes(cluster, notes)
