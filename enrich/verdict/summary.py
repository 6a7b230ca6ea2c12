"""What a verdict says of its minute in short. A whole one takes a millisecond to read, and a day has thousands."""

import msgspec

from enrich.verdict.minute import MinuteVerdict, State, Up, minute_in, require_version, unreadable


class Summary(msgspec.Struct, frozen=True):
    route: str
    minute: int
    """Since 1970."""
    state: State
    up: Up
    came: int
    lost: int
    p95_ms: float | None


class _Record(msgspec.Struct):
    version: int
    route: str
    minute: str
    state: State
    up: Up
    lost: int
    came: int = msgspec.field(name="in")
    p95_ms: float | None


def summary_of(verdict: MinuteVerdict) -> Summary:
    p95_ms = verdict.quantile_ms(0.95)
    own = (verdict.route, verdict.minute, verdict.state, verdict.up, verdict.came, verdict.total("lost"))
    return Summary(*own, p95_ms)


def read_summary(content: bytes) -> Summary:
    """Raises BadRecord for whatever is no verdict of this release."""
    try:
        found = msgspec.json.decode(content, type=_Record)
        require_version(found.version)
        minute = minute_in(found.minute)
    except (ValueError, RecursionError) as error:
        raise unreadable(error) from error
    return Summary(found.route, minute, found.state, found.up, found.came, found.lost, found.p95_ms)
