"""The end of a move: it is written down that the table lives elsewhere, so that a late writer is noticed."""

from enrich.admin.cluster import Cluster
from enrich.admin.moves.move import Route
from enrich.admin.moves.verifying import Verified
from enrich.admin.topics.notes import Note, ensure_notes_topic, write_notes


def record_move(cluster: Cluster, route: Route, verified: Verified, old_format: str, new_format: str) -> None:
    """`enrich topics check` of the old topic tells from now on when somebody writes there."""
    ensure_notes_topic(cluster)
    ends = {str(partition): offset for partition, offset in verified.ends.items()}
    notes = {
        route.target: Note(cluster.topics.topic_id(route.target), new_format),
        route.source: Note(cluster.topics.topic_id(route.source), old_format, route.target, ends),
    }
    write_notes(cluster, notes)
