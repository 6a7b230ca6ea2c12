"""Which figures of a program its page in docs/ explains."""

import re
from collections.abc import Sequence
from pathlib import Path

from enrich.service.routes import RouteStatus
from enrich.service.status import Program, exposition

_DOCS = Path(__file__).parents[2] / "docs"
_PAGES = {
    "agent": "local-store.md",
    "expel": "delivery.md",
    "ingest": "ingest.md",
    "observe": "observer.md",
    "retrier": "delivery.md",
    "stage": "stages-reference.md",
    "sync": "sync.md",
}


def unexplained(program: str, page: str) -> set[str]:
    """`page`: in Prometheus' text format. A figure counts that has no value now, too."""
    text = (_DOCS / _PAGES[program]).read_text(encoding="utf-8")
    # In tables whose names all begin alike, the beginning may be left out.
    words = {re.sub(rf"^(enrich_{program}_|_)", "", word) for word in re.findall(r"`([a-z0-9_]+)`", text)}
    names = set(re.findall(rf"^# TYPE enrich_{program}_(\w+) ", page, re.MULTILINE))
    assert names, page
    return names - words


def unexplained_of(program: str, statuses: Sequence[RouteStatus]) -> set[str]:
    page = exposition(statuses, Program(program, "plays", "127.0.0.1:0", "pages"))
    return unexplained(program, page.decode())
