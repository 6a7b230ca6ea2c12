"""Asks a person before too much is deleted: an empty or partial answer looks like one of a source whose rows are gone.

Question and answer are files beside the known rows, so that another process can answer, and both survive a restart.
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
"""How long an answer is valid: it was given for the source as it was then."""
_QUESTION, _ANSWER = "deletions-question.json", "deletions-answer.json"


@dataclass(frozen=True, slots=True)
class Question:
    """May these rows be deleted?"""

    missing: int
    rows: int
    asked_ms: int


class DeleteGuard:
    """Allows deletions up to a share of the rows, and once more than that if a person said so."""

    def __init__(self, directory: Path, share: float, *, where: str, next_step: str) -> None:
        self._directory = directory
        self._share = share
        self._where = where
        self._next_step = next_step

    def require(self, counts: Counts, rows: int, now_ms: int) -> None:
        """Raises WouldLoseData, and writes a question, unless so many may go. A source without rows always asks."""
        missing = counts.missing
        if missing == 0 or (counts.seen > 0 and missing <= rows * self._share):
            return
        asked = open_question(self._directory)
        if asked is not None and missing <= self._allowed(asked, now_ms):
            return
        # An open question keeps its time when its numbers change: an answer refers to the question by its time.
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
        """Removes question and answer: nothing is missing any more, or it was deleted."""
        (self._directory / _QUESTION).unlink(missing_ok=True)
        (self._directory / _ANSWER).unlink(missing_ok=True)

    def _allowed(self, asked: Question, now_ms: int) -> int:
        """How many rows may be deleted: by a recent answer to this question, else 0."""
        answer = _read(self._directory / _ANSWER) or {}
        is_of_this = answer.get("asked_ms") == asked.asked_ms
        age_ms = now_ms - answer.get("answered_ms", 0)
        return answer.get("missing", 0) if is_of_this and 0 <= age_ms <= _ANSWER_HOLDS_MS else 0


def open_question(directory: Path) -> Question | None:
    """The question that a source waits for, or None."""
    content = _read(directory / _QUESTION)
    return None if content is None else Question(content["missing"], content["rows"], content["asked_ms"])


def answer(directory: Path, question: Question) -> None:
    """Allows as many deletions as were asked for, once. Raises ConfigError if there is no open question."""
    if open_question(directory) is None:
        raise ConfigError("the source has no open question", next_step="see `enrich sync status`")
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
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    except OSError as error:  # `state_dir` is its user's alone
        raise ConfigError(
            f"what may be deleted cannot be read: {error.strerror}",
            where=str(path),
            next_step="run `enrich sync confirm` as the user of the sync service",
        ) from error
    is_valid = isinstance(content, dict) and all(isinstance(number, int) for number in content.values())
    return content if is_valid else None
