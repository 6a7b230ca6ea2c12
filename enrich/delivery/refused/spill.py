"""Writes dead letters that the DLQ refuses to a file on this host: they are not lost, and nothing waits for them."""

import base64
import json
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from enrich.base.errors import Retryable
from enrich.base.folders import make_folder
from enrich.kafka.writing.dead_letters import DeadLetter
from enrich.service.summed import Summed

_log = logging.getLogger("enrich.delivery")


class Spill:
    """One file, created on demand, with one JSON line per dead letter: its key, and base64 of its value and headers."""

    def __init__(self, path: Path, kept: Callable[[], object]) -> None:
        """`kept` is called for each dead letter that was written."""
        self.path = path
        self._kept = kept
        self._told = Summed[str]()

    @property
    def warnings(self) -> Sequence[str]:
        """That there are some, also of earlier runs, until somebody takes the file away."""
        with suppress(OSError):
            if self.path.stat().st_size:
                return (f"the DLQ has refused some dead letters: they are in {self.path}",)
        return ()

    def keep(self, letter: DeadLetter) -> None:
        """The dead letter is on disk when this returns. Raises Retryable if it cannot be written."""
        headers = [[name, None if content is None else _text(content)] for name, content in letter.headers]
        line = json.dumps({"key": letter.key.decode(), "value": _text(letter.value), "headers": headers}) + "\n"
        try:
            make_folder(self.path.parent)
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "ab") as file:
                file.write(line.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise Retryable(
                f"a dead letter can be written neither to the DLQ nor to the disk: {error.strerror}",
                where=f"{self.path}, record {letter.key.decode()}",
                next_step="raise max.message.bytes of the DLQ, or make room on the disk",
            ) from error
        self._kept()
        # The file names each of them.
        for name, number in self._told.add({"letters": 1}).items():
            _log.error(
                "the DLQ refuses dead letters even when they are cut short: they are kept in a file on this host",
                extra={name: number, "record": letter.key.decode(), "file": str(self.path)},
            )


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
