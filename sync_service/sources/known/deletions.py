"""Before too much disappears a person is asked: a source that answers empty or half looks like one whose rows are gone.

Question and answer are files beside what is known of the topic, so that the answer can be given by another process, and
outlives a restart.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from enrich.base.errors import ConfigError, WouldLoseData
from enrich.base.folders import make_folder
from stores.clock import SystemClock
from stores.rocks.errors import mapped_files
from sync_service.sources.known.differences import Counts

_ANSWER_HOLDS_MS = 86_400_000
"""Whoever answered looked at the source as it was then."""
_QUESTION, _ANSWER = "deletions-question.json", "deletions-answer.json"


@dataclass(frozen=True, slots=True)
class Question:
    """May these rows be deleted?"""

    missing: int
    rows: int
    asked_ms: int


class DeleteGuard:
    """Lets deletions pass up to a share of the rows, and more of them once, when a person said so."""

    def __init__(self, directory: Path, share: float, *, where: str, next_step: str) -> None:
        self._directory = directory
        self._share = share
        self._where = where
        self._next_step = next_step

    def require(self, counts: Counts, rows: int, now_ms: int) -> None:
        """Raises WouldLoseData, and leaves a question, unless so many may go. A source without a row always asks."""
        missing = counts.missing
        if missing == 0 or (counts.seen > 0 and missing <= rows * self._share):
            return
        asked = open_question(self._directory)
        if asked is not None and missing <= self._allowed(asked, now_ms):
            return
        # While it stands a question stays the same one, whatever its numbers: an answer names it by its time.
        _write(self._directory / _QUESTION, asdict(Question(missing, rows, asked.asked_ms if asked else now_ms)))
        what = "does not have a single row" if counts.seen == 0 else f"lacks {missing} of {rows} rows"
        raise WouldLoseData(
            f"the source {what} any more: nothing was produced"
            if counts.seen == 0
            else f"the source {what} that the topic has, more than delete_guard allows: nothing was produced",
            where=self._where,
            next_step=self._next_step,
        )

    def settle(self) -> None:
        """Nothing is missing any more, or it was deleted: the question is out of date, and the answer with it."""
        (self._directory / _QUESTION).unlink(missing_ok=True)
        (self._directory / _ANSWER).unlink(missing_ok=True)

    def _allowed(self, asked: Question, now_ms: int) -> int:
        """How many may be deleted: what was answered to this question, and not long ago."""
        answer = _read(self._directory / _ANSWER) or {}
        is_of_this = answer.get("asked_ms") == asked.asked_ms
        age_ms = now_ms - answer.get("answered_ms", 0)
        return answer.get("missing", 0) if is_of_this and 0 <= age_ms <= _ANSWER_HOLDS_MS else 0


def open_question(directory: Path) -> Question | None:
    """What a source waits for, if it does."""
    told = _read(directory / _QUESTION)
    return None if told is None else Question(told["missing"], told["rows"], told["asked_ms"])


def answer(directory: Path, question: Question) -> None:
    """Allows as many deletions as were asked for, once. Raises ConfigError when nothing was asked."""
    if open_question(directory) is None:
        raise ConfigError("the source does not ask for anything", next_step="see `enrich sync status`")
    answered_ms = SystemClock().now_ms()
    _write(
        directory / _ANSWER,
        {"missing": question.missing, "asked_ms": question.asked_ms, "answered_ms": answered_ms},
    )


def _write(path: Path, content: dict[str, int]) -> None:
    aside = path.with_suffix(".new")
    make_folder(path.parent)
    with mapped_files(path):
        aside.write_text(json.dumps(content), encoding="utf-8")
        aside.replace(path)


def _read(path: Path) -> dict[str, int] | None:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return told if isinstance(told, dict) and all(isinstance(number, int) for number in told.values()) else None
