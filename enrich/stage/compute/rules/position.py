"""Where a function stands in an expression, which decides whether it may fail there."""

from enum import Enum


class Position(Enum):
    """In Spark a failure makes the whole expression null."""

    NULLING = 1
    """If this is null, so is the whole: a failure needs no more than a null."""
    ALWAYS = 2
    """Evaluated for every event, but a null here is a value as any other: failures have to be remembered."""
    SOMETIMES = 3
    """Evaluated for some events only, as the branch of an IF. Which ones failed cannot be told here."""

    @property
    def of_first(self) -> "Position":
        """Of the first argument of a function that may have a value although an argument is null."""
        return Position.SOMETIMES if self is Position.SOMETIMES else Position.ALWAYS

    @property
    def of_others(self) -> "Position":
        """Of arguments behind the first: Spark does not look at them if the first one decides."""
        return Position.NULLING if self is Position.NULLING else Position.SOMETIMES
