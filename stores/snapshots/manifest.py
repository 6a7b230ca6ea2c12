"""The manifest of a snapshot: where its rows come from, up to which offsets, and length and SHA-256 of every file.

It is JSON in one canonical form. A reader renders what it has parsed and compares the bytes: so nothing in the file can
be ignored, appear twice, or be interpreted in another way.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from stores.errors import ConfigError, CorruptState
from stores.protocol import KeyKind
from stores.table import HistoryFloor, Offsets, Seq

FORMAT = 1
NAME = "manifest.json"
LARGEST = 16 << 20
_FILE_NAME = re.compile(r"(newest|past|quarantined)-\d{5}\.arrows")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MOST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file with row versions, as an Arrow IPC stream."""

    name: str
    versions: int
    length: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Partition:
    """Up to which offset a partition is in the snapshot, and from where on its history is complete."""

    partition: int
    position: int
    floor_offset: int | None
    """None: the history is complete from the first record on."""
    floor_timestamp: int | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a snapshot. Times are milliseconds since the epoch."""

    pipeline: str
    table: str
    topic: str
    definition: str
    """A digest of what decides which rows records become: only a table with the same definition may import them."""
    key: KeyKind
    seq: Seq
    taken_at: int
    complete_through: int
    rows: int
    digest: str
    partitions: tuple[Partition, ...]
    notes: Mapping[str, str]
    """The agent's notes for the positions, such as the topic's id."""
    files: tuple[DataFile, ...]

    @property
    def positions(self) -> Offsets:
        return {one.partition: one.position for one in self.partitions}

    @property
    def floors(self) -> Mapping[int, HistoryFloor]:
        return {
            one.partition: HistoryFloor(one.floor_offset, one.floor_timestamp)
            for one in self.partitions
            if one.floor_offset is not None and one.floor_timestamp is not None
        }

    @property
    def versions(self) -> int:
        return sum(file.versions for file in self.files)

    def as_bytes(self) -> bytes:
        fields = {"format": FORMAT, **asdict(replace(self, key=self.key.value)), "seq": self.seq._asdict()}  # type: ignore[arg-type] # plain text for JSON
        return _rendered({**fields, "sha256": hashlib.sha256(_rendered(fields)).hexdigest()})


def parse_manifest(raw: bytes, path: Path) -> Manifest:
    """Raises CorruptState for anything that `as_bytes` did not make, ConfigError for a newer format."""
    try:
        fields = json.loads(raw)
        # Check this first, whatever the format: a flipped bit must not make a damaged file look like a newer format.
        unsigned = {name: value for name, value in fields.items() if name != "sha256"}
        if fields["sha256"] != hashlib.sha256(_rendered(unsigned)).hexdigest():
            _refuse(path, "its own checksum is wrong")
        version = fields["format"]
        if isinstance(version, int) and version > FORMAT:
            raise ConfigError(
                f"the snapshot has format {version}, this release knows {FORMAT} at most",
                where=str(path),
                next_step="use the newer release, or export again with this one",
            )
        manifest = _manifest(fields)
    # RecursionError: JSON may be nested deeper than Python's parser can go.
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        _refuse(path, repr(error))
    if manifest.as_bytes() != raw:
        _refuse(path, "it is not in the form that it was written in")
    return manifest


def _manifest(fields: Mapping[str, Any]) -> Manifest:
    partitions = tuple(
        Partition(
            _number(one["partition"]),
            _number(one["position"]),
            None if one["floor_offset"] is None else _number(one["floor_offset"]),
            None if one["floor_timestamp"] is None else _time(one["floor_timestamp"]),
        )
        for one in fields["partitions"]
    )
    files = tuple(
        DataFile(
            _matching(_FILE_NAME, one["name"]),
            _number(one["versions"]),
            _number(one["length"]),
            _matching(_SHA256, one["sha256"]),
        )
        for one in fields["files"]
    )
    if len({one.partition for one in partitions}) < len(partitions) or len({one.name for one in files}) < len(files):
        raise ValueError("a partition or file is named twice")
    seq = fields["seq"]
    return Manifest(
        **{name: _text(fields[name]) for name in ("pipeline", "table", "topic", "definition", "digest")},
        key=KeyKind(fields["key"]),
        seq=Seq(_text(seq["store"]), _number(seq["generation"]), _number(seq["counter"])),
        taken_at=_number(fields["taken_at"]),
        complete_through=_number(fields["complete_through"]),
        rows=_number(fields["rows"]),
        partitions=partitions,
        notes={_text(name): _text(note) for name, note in fields["notes"].items()},
        files=files,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("text is expected")
    value.encode()  # JSON may contain half of a surrogate pair, which raises here
    return value


def _matching(pattern: re.Pattern[str], value: object) -> str:
    text = _text(value)
    if pattern.fullmatch(text) is None:
        raise ValueError(f"{text[:100]!r} is not a valid value")
    return text


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MOST:
        raise ValueError("a whole number is expected")
    return value


def _time(value: object) -> int:
    # The time of a record, so it may be before 1970.
    if type(value) is not int or not -_MOST - 1 <= value <= _MOST:
        raise ValueError("a time is expected")
    return value


def _rendered(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), sort_keys=True).encode() + b"\n"


def _refuse(path: Path, reason: str) -> NoReturn:
    raise CorruptState(f"the snapshot's manifest is damaged: {reason}", where=str(path), next_step="use another one")
