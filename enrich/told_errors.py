"""Errors of our tree on their way from one process to another."""

from collections.abc import Mapping

from enrich import errors
from enrich.errors import EnrichError, Fatal


def told(error: EnrichError) -> Mapping[str, str | None]:
    """All that an error says. Of a kind that only its own room knows, the kind above it."""
    kind = next((known for known in type(error).__mro__ if known.__name__ in errors.__all__), Fatal)
    return {"kind": kind.__name__, "what": error.what, "where": error.where, "next_step": error.next_step}


def as_it_was(told: Mapping[str, str | None]) -> EnrichError:
    """The error that another process told; a Fatal where its kind is not known here."""
    kind = getattr(errors, str(told["kind"])) if told["kind"] in errors.__all__ else Fatal
    error: EnrichError = kind(str(told["what"]), where=told["where"], next_step=told["next_step"])
    return error
