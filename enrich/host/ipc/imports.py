"""Requests to import a snapshot into a table: files by which a command and the agent communicate.

<id>.request   the command asks; the file is complete once it has this name
<id>.taken     the agent works on it; if a new agent finds it, the import was interrupted and the table is unchanged
<id>.outcome   how it ended; the command removes it
"""

import json
import logging
import os
import re
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from enrich.base.errors import EnrichError
from enrich.base.folders import files_of, make_folder
from stores.snapshots import Snapshot, open_snapshot

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.5
_REQUEST = re.compile(r"(?P<id>[0-9a-f]{32})\.request")
_KEPT_S = 3600
"""An outcome that nobody has fetched for so long belongs to a command that was killed."""


@dataclass(frozen=True)
class Outcome:
    """How an import ended. Either `rows` (the table's rows afterwards) or `refused` (the reason) is set."""

    rows: int | None = None
    refused: str | None = None


class Import:
    """One request, handled by the table's keeper."""

    def __init__(self, snapshot: Snapshot, folder: Path, identity: str) -> None:
        self.snapshot = snapshot
        self.begun = False
        self._folder = folder
        self._identity = identity

    def done(self, rows: int) -> None:
        _log.info("a snapshot was taken in", extra={"snapshot": str(self.snapshot.path), "rows": rows})
        _answer(self._folder, self._identity, Outcome(rows=rows))

    def refuse(self, reason: str) -> None:
        _log.warning("a snapshot was not taken in", extra={"snapshot": str(self.snapshot.path), "reason": reason})
        _answer(self._folder, self._identity, Outcome(refused=reason))


class TakesIn(Protocol):
    """A keeper that can load its table from a snapshot."""

    def take_in(self, wanted: Import) -> None: ...


class Imports:
    """The agent's side."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._looked_at = 0.0
        for path in files_of(self._folder):
            if path.suffix == ".taken":
                _answer(folder, path.stem, Outcome(refused="the agent ended meanwhile; the table is unchanged"))
            elif path.suffix == ".outcome":
                with suppress(FileNotFoundError):  # its command has fetched it
                    if time.time() - path.stat().st_mtime > _KEPT_S:
                        path.unlink()

    def hand_out(self, keepers: Mapping[str, TakesIn]) -> None:
        """Passes new requests to the keepers of their tables. Cheap: it looks twice a second."""
        if time.monotonic() - self._looked_at < _LOOK_EVERY_S:
            return
        self._looked_at = time.monotonic()
        with suppress(OSError):  # no descriptor is left: it looks again
            self._hand_out(keepers)

    def _hand_out(self, keepers: Mapping[str, TakesIn]) -> None:
        for path in files_of(self._folder):
            found = _REQUEST.fullmatch(path.name)
            if found is None:
                continue
            taken = path.with_suffix(".taken")
            try:
                path.rename(taken)
                request = json.loads(taken.read_bytes())
                name, snapshot = str(request["table"]), open_snapshot(Path(request["snapshot"]))
            except FileNotFoundError:
                continue  # the command has withdrawn it
            except (EnrichError, OSError, ValueError, KeyError, TypeError) as error:
                _answer(self._folder, found["id"], Outcome(refused=str(error)))
                continue
            if name in keepers:
                keepers[name].take_in(Import(snapshot, self._folder, found["id"]))
            else:
                _answer(self._folder, found["id"], Outcome(refused=f"the agent has no table `{name}` with a topic"))


class ImportRequest:
    """The command's side."""

    def __init__(self, folder: Path, table: str, snapshot: Path) -> None:
        """Writes the request. The agent need not run yet: it looks for requests before it loads anything."""
        make_folder(folder)
        self._folder = folder
        self._identity = uuid.uuid4().hex
        _put(folder, f"{self._identity}.request", {"table": table, "snapshot": str(snapshot)})

    def outcome(self) -> Outcome | None:
        """How it ended; None as long as it has not. Must not be called again once it has."""
        path = self._folder / f"{self._identity}.outcome"
        try:
            outcome = Outcome(**json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        path.unlink(missing_ok=True)
        return outcome

    def withdraw(self) -> bool:
        """Withdraws the request. Returns whether it was in time: False means that the agent has taken it."""
        try:
            (self._folder / f"{self._identity}.request").unlink()
        except FileNotFoundError:
            return False
        return True


def _answer(folder: Path, identity: str, outcome: Outcome) -> None:
    try:
        _put(folder, f"{identity}.outcome", vars(outcome))
        (folder / f"{identity}.taken").unlink(missing_ok=True)
    except OSError as error:
        # If the disk is full, the next agent answers. If the directory was deleted, nobody waits for the answer.
        _log.warning("the outcome of an import cannot be written", extra={"reason": str(error)})


def _put(folder: Path, name: str, fields: Mapping[str, object]) -> None:
    """Writes the file atomically: it appears whole or not at all."""
    work = folder / f".{name}.{os.getpid()}"
    work.write_text(json.dumps(fields), encoding="utf-8")
    work.rename(folder / name)
