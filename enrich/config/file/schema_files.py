"""Reads `file:` of avro tables and sources into `schema`, so that other hosts do not need the file."""

from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from enrich.config.file.document import Document
from enrich.config.messages.problems import Finding, Path
from enrich.config.messages.words import Wrong
from enrich.config.types.encoding import parse_avro_schema
from enrich.config.types.fields import as_local_path

_LARGEST = 4 * 2**20


def read_schema_files(document: Document) -> None:
    """Replaces `file` by `schema` in the document's data. Errors in a file become findings."""
    for path, section in _encoded(document.data):
        if section.get("format") != "avro" or section.get("file") is None or section.get("schema") is not None:
            continue
        try:
            section["schema"] = parse_avro_schema(_read(as_local_path(section["file"])))
        except Wrong as wrong:
            document.findings.append(Finding((*path, "file"), str(wrong)))
        else:
            del section["file"]


def _encoded(data: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    for name, table in _items(data, "tables"):
        yield ("tables", name), table
    if isinstance(data, Mapping):
        for name, route in _items(data.get("sync"), "writeback"):
            yield ("sync", "writeback", name), route
        for name, route in _items(data.get("sync"), "sources"):
            yield ("sync", "sources", name), route
    for name, stage in _items(data, "stages"):
        if isinstance(stage.get("source"), dict):
            yield ("stages", name, "source"), stage["source"]


def _items(data: Any, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    sections = data.get(key) if isinstance(data, Mapping) else None
    for name, section in sections.items() if isinstance(sections, Mapping) else ():
        if isinstance(section, dict):
            yield name, section


def _read(path: str) -> str:
    try:
        with FilePath(path).open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise Wrong(f"cannot read {path}: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise Wrong(f"{path} is larger than {_LARGEST // 2**20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Wrong(f"{path} is not UTF-8 text") from None
