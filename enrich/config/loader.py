"""Loads a pipeline: reads the file, replaces variables, reads schema files, validates. Reports all problems at once."""

import os
import stat
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path as FilePath

from enrich.base.errors import ConfigError
from enrich.config.file.document import Document
from enrich.config.file.schema_files import read_schema_files
from enrich.config.file.yaml_tree import NotYaml
from enrich.config.messages.problems import ConfigProblems, Finding, Path, Problem
from enrich.config.messages.words import Wrong
from enrich.config.sections.pipeline import Pipeline
from enrich.config.validation import validate

LARGEST_FILE = 2**18


def load(path: str | PathLike[str], environ: Mapping[str, str] | None = None) -> Pipeline:
    """Raises ConfigProblems with everything that is wrong with the file, ConfigError if it cannot be read at all."""
    return load_text(_read(os.fspath(path)), environ, os.fspath(path))


def load_text(text: str, environ: Mapping[str, str] | None = None, file: str = "<text>") -> Pipeline:
    """The same for the contents of a file. `environ` defaults to this process's environment."""
    return _loaded(text, environ, file, lambda _: False)


def load_for_store(path: str | PathLike[str], environ: Mapping[str, str] | None = None) -> Pipeline:
    """The same, to find out where the pipeline's store is: variables that do not decide it, such as passwords, need not
    be set."""
    return _loaded(_read(os.fspath(path)), environ, os.fspath(path), lambda at: not _is_of_store(at))


def _is_of_store(path: Path) -> bool:
    """Whether the value decides where the store is (`enrich.host.ipc.store_paths`)."""
    return path[:1] in (("name",), ("state_dir",), ("tables",)) or path[:2] == ("kafka", "bootstrap_servers")


def _loaded(text: str, environ: Mapping[str, str] | None, file: str, may_be_unset: Callable[[Path], bool]) -> Pipeline:
    try:
        document = Document(text, os.environ if environ is None else environ, file)
    except NotYaml as error:
        raise ConfigProblems([Problem(file, error.position.line, error.position.column, "", error.message)]) from None
    read_schema_files(document)
    pipeline, findings = validate(document.data, document.findings)
    findings = [found for found in findings if found.path not in document.unset or not may_be_unset(found.path)]
    if findings or pipeline is None:
        raise ConfigProblems(_in_order(document, findings))
    return pipeline


def _in_order(document: Document, findings: list[Finding]) -> list[Problem]:
    problems = {document.problem(finding) for finding in findings}
    return sorted(problems, key=lambda problem: (problem.line, problem.column or 0, problem.key, problem.message))


def _read(path: str) -> str:
    try:
        data = _read_bytes(path)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"cannot read the configuration: {error.strerror}", where=path) from None
    except Wrong as wrong:
        raise ConfigError(f"cannot read the configuration: {wrong}", where=path) from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigProblems([Problem(path, line, None, "", "not UTF-8 text; save the file as UTF-8")]) from None
    return text


def _read_bytes(path: str) -> bytes:
    if "\0" in path:
        raise Wrong("a path has no zero byte")
    # A pipe or a device could block forever, or never end.
    if not stat.S_ISREG(FilePath(path).stat().st_mode):
        raise Wrong("it is not a file" if not FilePath(path).is_dir() else "it is a directory")
    with FilePath(path).open("rb") as file:
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise Wrong(f"it is larger than {LARGEST_FILE // 2**10} KiB")
    return data
