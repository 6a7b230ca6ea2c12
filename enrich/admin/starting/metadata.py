"""Reads a file of metadata to the end: its columns, the types that all rows agree with, and how many rows there are."""

import codecs
import csv
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.json as arrow_json

from enrich.admin.starting.types import CSV_TYPES, JSON_TYPES, TEXT, Guess
from enrich.base.errors import ConfigError, Retryable
from enrich.config import Columns, FileType
from enrich.config.messages.words import shortened
from stores.external.files.formats import CsvReading, JsonReading

ENDINGS = {".csv": FileType.csv, ".json": FileType.json, ".jsonl": FileType.json, ".ndjson": FileType.json}
_BLOCK = 64 << 20
"""How much of a JSON file says which fields there are."""
_NO_HEADER = r"(?i)[+-]?[0-9]+([.,][0-9]+)?|[0-9]{4}-[0-9]{2}-[0-9]{2}.*|true|false|null"
_MARKS = {codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16"}


@dataclass(frozen=True)
class Found:
    """A column of the file."""

    name: str
    type: str
    has_values: bool
    are_networks: bool = False


@dataclass(frozen=True)
class Metadata:
    """What is in a file of metadata."""

    path: Path
    format: FileType
    columns: tuple[Found, ...]
    rows: int

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Found:
        return next(column for column in self.columns if column.name == name)


def read_metadata(path: Path) -> Metadata:
    """Raises ConfigError, with the line if there is one, for a file that `enrich table load` would not take."""
    where = f"file {shortened(str(path))}"
    form = ENDINGS.get(path.suffix.lower())
    with _refused(where):
        if not _is_text(path):
            raise ConfigError("the file's name is not UTF-8", where=where, next_step="rename it")
        if path.is_dir() or not path.exists():
            what = "this is a directory" if path.is_dir() else "there is no such file"
            raise ConfigError(what, where=where, next_step=f"files here: {_neighbours(path)}")
        if form is None:
            raise ConfigError(
                "the file's name does not say its type",
                where=where,
                next_step="name it .csv, or .jsonl if it has one JSON object a line",
            )
        if path.stat().st_size == 0:
            raise ConfigError("the file is empty", where=where, next_step=_EMPTY[form])
        _check_text(path, where)
        columns, rows = _csv(path, where) if form == FileType.csv else _json(path, where)
    return Metadata(path, form, columns, rows)


_EMPTY = {
    FileType.csv: "its first line names the columns, user_id,plan; each other line is a row, ann,pro",
    FileType.json: 'each line is a row: {"user_id": "ann", "plan": "pro"}',
}


def _csv(path: Path, where: str) -> tuple[tuple[Found, ...], int]:
    names = _header(path, where)
    guesses = {name: Guess(CSV_TYPES) for name in names}
    return _guessed(CsvReading(path, where, None), guesses, dict.fromkeys(names, TEXT))


def _json(path: Path, where: str) -> tuple[tuple[Found, ...], int]:
    with path.open("rb") as file:
        if file.read(1) == b"[":
            raise ConfigError(
                "the file is one array", where=where, next_step="write one object a line: jq -c '.[]' does"
            )
    options = arrow_json.ReadOptions(block_size=_BLOCK, use_threads=False)
    try:
        inferred: pa.Schema = arrow_json.open_json(path, options).schema
    except pa.ArrowException as error:
        changed = re.search(r"Column\(/(.+?)\) changed from (\w+) to (\w+)", str(error))
        raise ConfigError(
            f"field {changed[1]} is {changed[2]} in one row and {changed[3]} in another"
            if changed
            else "it cannot be read as JSON, one object a line",
            where=where,
            next_step="write it in one way everywhere" if changed else _EMPTY[FileType.json],
        ) from None
    known = pa.schema(_fields(inferred))
    if not known.names:
        raise ConfigError("its objects have no fields", where=where, next_step=_EMPTY[FileType.json])
    _check_names(known.names, where)
    types = {column.name: str(column.type) for column in Columns.from_arrow(known).columns}
    guesses = {name: Guess(JSON_TYPES) for name, kind in types.items() if kind == TEXT}
    return _guessed(JsonReading(path, where, known), guesses, types)


def _fields(of: pa.Schema | pa.StructType) -> list[pa.Field]:
    """Those that say what they are: not an object that is empty in all rows."""
    typed = [pa.field(one.name, _json_type(one.type)) for one in of]
    return [one for one in typed if not pa.types.is_struct(one.type) or one.type.num_fields]


def _json_type(kind: pa.DataType) -> pa.DataType:
    """What Arrow takes for a time is text, which `Guess` judges; so is what is null in all rows."""
    if pa.types.is_list(kind):
        return pa.list_(_json_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct(_fields(kind))
    if pa.types.is_boolean(kind) or pa.types.is_int64(kind) or pa.types.is_float64(kind):
        return kind
    return pa.string()


def _guessed(
    reading: CsvReading | JsonReading, guesses: dict[str, Guess], types: dict[str, str]
) -> tuple[tuple[Found, ...], int]:
    """The types of all columns; those that are text are guessed."""
    rows, filled = 0, set()
    for batch in reading.batches():
        rows += batch.num_rows
        for name in types:
            values = batch.column(name)
            if values.null_count < len(values):
                filled.add(name)
            if name in guesses:
                guesses[name].see(values)
    types |= {name: guess.type for name, guess in guesses.items()}
    networks = {name for name, guess in guesses.items() if guess.are_networks}
    return tuple(Found(name, kind, name in filled, name in networks) for name, kind in types.items()), rows


def _header(path: Path, where: str) -> list[str]:
    with path.open("r", encoding="utf-8-sig", newline="") as file:
        line = file.readline().rstrip("\r\n")
    try:
        names = next(csv.reader([line], strict=True), [])
    except csv.Error:
        names = []
    if not names:
        raise ConfigError("its first line names no columns", where=where, next_step=_EMPTY[FileType.csv])
    for separator, called in ((";", "semicolons"), ("\t", "tabs")):
        if len(names) == 1 and separator in names[0]:
            raise ConfigError(
                f"its columns seem to be separated by {called}", where=where, next_step="separate them by commas"
            )
    looks_like_a_row = [name for name in names if re.fullmatch(_NO_HEADER, name.strip())]
    if looks_like_a_row or "" in names:
        what = f"{shortened(looks_like_a_row[0])} is the name of no column" if looks_like_a_row else "a name is empty"
        raise ConfigError(
            f"its first line seems to be a row, not a header: {what}",
            where=where,
            next_step="put a line with the columns' names above it",
        )
    _check_names(names, where)
    return names


def _check_names(names: list[str], where: str) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if len(seen) < len(names) and names.count(name) > 1:
            raise ConfigError(
                f"column {shortened(name)} is there twice", where=where, next_step="give each column a name of its own"
            )
        if other != name:
            raise ConfigError(
                f"columns {shortened(other)} and {shortened(name)} differ in case only",
                where=where,
                next_step="rename one: Spark could not tell them apart",
            )
    for name in names:
        if not name.isprintable():
            raise ConfigError(
                f"the name of column {shortened(name)} has control characters", where=where, next_step="rename it"
            )


def _check_text(path: Path, where: str) -> None:
    decoder, line = codecs.getincrementaldecoder("utf-8")(), 1
    with path.open("rb") as file:
        start = file.read(2)
        if start in _MARKS:
            raise ConfigError(f"the file is {_MARKS[start]} text", where=where, next_step="save it as UTF-8")
        file.seek(0)
        while True:
            block = file.read(1 << 20)
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                # What was left of the block before counts no lines: it is a part of one character.
                line += error.object[: error.start].count(b"\n")
                raise ConfigError(
                    f"line {line} is not UTF-8 text", where=where, next_step="save the file as UTF-8"
                ) from None
            if not block:
                return
            line += block.count(b"\n")


def _is_text(path: Path) -> bool:
    """Whether a configuration file can name it: it is UTF-8 itself."""
    try:
        return bool(str(path).encode())
    except UnicodeEncodeError:
        return False


def _neighbours(path: Path) -> str:
    folder = path if path.is_dir() else path.parent
    names = sorted(one.name for one in folder.iterdir() if one.suffix.lower() in ENDINGS) if folder.is_dir() else []
    return shortened(", ".join(names)) or "none that ends with .csv or .jsonl"


@contextmanager
def _refused(where: str) -> Iterator[None]:
    try:
        yield
    except Retryable as error:  # as a source that is read again and again would say it
        next_step = "correct the file" if error.next_step == "put it there again" else error.next_step
        raise ConfigError(error.what, where=where, next_step=next_step) from None
    except OSError as error:
        raise ConfigError(f"it cannot be read: {error.strerror}", where=where) from None
