"""What becomes of a request: an answer, or none."""

from dataclasses import dataclass, field

from enrich.endpoints.http.hiding import Hidden

MOST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """An endpoint's answer to a request, read whole, or as far as it is of use to anybody."""

    status: int
    """200 to 599."""
    retry_after: str | None
    """The header Retry-After as it is."""
    start: str
    """The start of the body, for people: at most 200 characters, all printable, and never a secret."""
    date: str | None = field(default=None, compare=False)
    """The header Date as it is."""


class NoAnswer(Exception):
    """No whole answer came, for whichever reason."""

    def __init__(self, reason: str, *, may_have_arrived: bool) -> None:
        """`reason`: for people, without secrets. `may_have_arrived`: the endpoint may have the request nonetheless."""
        super().__init__(reason)
        self.reason = reason
        self.may_have_arrived = may_have_arrived


def shown(body: bytes, hidden: Hidden) -> str:
    """The start of a body, fit for a line of text. What an endpoint repeats of `hidden` is left out."""
    text = hidden.left_out_of(body.decode("utf-8", "replace"))[:MOST_SHOWN]
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
