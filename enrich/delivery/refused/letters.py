"""Dead letters of a route: each gets to the DLQ, cut if need be, or into a file of this host."""

from enrich.delivery.refused.spill import Spill
from enrich.kafka.writing.dead_letters import DeadLetter, Origin, dead_letter, fitted


class Letters:
    """`room`: the largest record that the DLQ takes, in bytes."""

    def __init__(self, route: str, room: int, spill: Spill) -> None:
        self._route = route
        self._room = room
        self._spill = spill

    def letter(self, origin: Origin, reason: str, sender: str) -> DeadLetter | None:
        """What is to be written to the DLQ. None: it does not fit however it is cut, and is kept in the file. Raises
        Retryable if the file cannot be written."""
        largest = max(self._room, 0)
        whole = dead_letter(origin, reason, stage=self._route, sender=sender, largest_value=largest)
        letter = fitted(whole, self._room)
        if letter is None:
            self.keep(origin, reason, sender)
        return letter

    def keep(self, origin: Origin, reason: str, sender: str) -> None:
        """Writes the whole dead letter to the file. Raises Retryable if it cannot be written."""
        largest = len(origin.value or b"")
        self._spill.keep(dead_letter(origin, reason, stage=self._route, sender=sender, largest_value=largest))
