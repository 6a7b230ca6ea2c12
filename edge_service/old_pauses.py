"""Retry topics of pauses that a route's configuration does not name any more: what waits in them still comes back."""

from collections.abc import Collection, Mapping
from datetime import timedelta

from enrich.config.messages.words import Wrong
from enrich.config.sections.edges.expel import retry_in_prefix
from enrich.config.types.quantities import duration_text, parse_duration
from enrich.kafka import Topics


def old_pauses(topics: Topics, pipeline: str, route: str, present: Collection[str]) -> Mapping[str, timedelta]:
    """The topics that there are beside the present ones, each with its pause. Raises Retryable. It asks for all topics:
    not to be called often."""
    prefix = retry_in_prefix(pipeline, route)
    found = {name: _pause(name.removeprefix(prefix)) for name in topics.names(prefix) if name not in present}
    return {name: pause for name, pause in found.items() if pause is not None}


def _pause(text: str) -> timedelta | None:
    """None: it is no topic of a route's."""
    try:
        pause = parse_duration(text)
    except Wrong:
        return None
    return pause if duration_text(pause) == text else None
