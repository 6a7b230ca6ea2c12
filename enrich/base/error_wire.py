"""Sends errors of our tree from one process to another."""

from collections.abc import Mapping

from enrich.base import errors
from enrich.base.errors import EnrichError, Fatal


def to_wire(error: EnrichError) -> Mapping[str, str | None]:
    """All fields of an error. A kind that is not in `enrich.base.errors` is sent as its nearest base class there."""
    kind = next((known for known in type(error).__mro__ if known.__name__ in errors.__all__), Fatal)
    return {"kind": kind.__name__, "what": error.what, "where": error.where, "next_step": error.next_step}


def from_wire(wire: Mapping[str, str | None]) -> EnrichError:
    """The error that another process sent; a Fatal if its kind is unknown here."""
    kind = getattr(errors, str(wire["kind"])) if wire["kind"] in errors.__all__ else Fatal
    error: EnrichError = kind(str(wire["what"]), where=wire["where"], next_step=wire["next_step"])
    return error
