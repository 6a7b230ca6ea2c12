"""Why an event cannot be used, as text for people: what the formats' `reason` says in Spark, for workers."""

from dataclasses import dataclass

from enrich.codecs.rows import is_text

NO_TEXT = "the event is not UTF-8 text"


@dataclass(frozen=True)
class Why:
    """It travels pickled."""

    otherwise: str
    """Of an event that is there."""
    unless_text: str | None = None
    """Of one that is not even text, if that is told apart."""

    def of(self, value: bytes | None) -> str:
        if value is None:
            return "the event has no value"
        if not value:
            return "the event is empty"
        if self.unless_text is not None and not is_text(value):
            return self.unless_text
        return self.otherwise
