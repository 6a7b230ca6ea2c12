"""An audited minute beside the observer's verdict."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from enrich.audit.judging import AuditedMinute
from enrich.tally import Origins
from enrich.tally.origins import text
from enrich.verdict import MinuteVerdict, State
from enrich.verdict.minute import origins_of


@dataclass(frozen=True)
class Compared:
    audited: AuditedMinute
    verdict: MinuteVerdict | None
    differences: Sequence[str]
    """Empty too if there is no settled verdict to compare with."""

    @property
    def is_compared(self) -> bool:
        return self.verdict is not None and self.verdict.state is State.SETTLED


def compared(audited: AuditedMinute, verdict: MinuteVerdict | None) -> Compared:
    if verdict is None or verdict.state is not State.SETTLED:
        return Compared(audited, verdict, [])
    return Compared(audited, verdict, [*_differences(audited, verdict)])


def _differences(audited: AuditedMinute, verdict: MinuteVerdict) -> Iterator[str]:
    if verdict.came != len(audited.came):
        yield f"{len(audited.came):,} events came in, and the verdict says {verdict.came:,}"
    names, more = verdict.named("lost")
    named, lost = origins_of(names), audited.lost
    unnamed = lost - named
    if len(unnamed) > more:
        yield f"lost, and the verdict does not say so: {_shown(unnamed)}"
    if len(unnamed) < more:
        yield f"the verdict calls {more:,} more lost without a name, and {len(unnamed):,} are"
    if false := named - lost:
        yield f"the verdict calls lost what is not: {_shown(false)}"


def _shown(origins: Origins) -> str:
    ranges = [text(one) for one in origins.ranges(6)]
    return f"{len(origins):,} events: {', '.join(ranges[:5])}{', ...' if len(ranges) > 5 else ''}"
