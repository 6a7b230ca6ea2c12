"""Validates data to a pipeline, or to everything that is wrong with it: fields first, then the rules between them.

pydantic builds nothing if one field is wrong, and the rules need a model. So a refused value is removed or replaced by
a valid one, remembered as a doubt, and the rest is validated again. Findings that depend on a doubt are dropped. So
one run reports all problems and none of their consequences.
"""

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from enrich.config.messages.problems import Finding, Path
from enrich.config.messages.words import Wrong, nearest, shown
from enrich.config.sections.pipeline import Pipeline
from enrich.config.sections.rules import broken_rules
from enrich.config.shape import keys_of, section_at, stand_in

# Each round finds what the previous one hid; models are not nested deeper than this.
_ROUNDS = 8

_MAPPING = ("model_type", "model_attributes_type", "dict_type", "mapping_type")
_LIST = ("tuple_type", "list_type")


def validate(data: Any, known: Iterable[Finding] = ()) -> tuple[Pipeline | None, list[Finding]]:
    """The pipeline and all findings, including those known before. Where there is one the pipeline has a stand-in, or
    nothing; it is None if nothing can be made of the data.

    Changes the data, which must consist of dicts and lists.
    """
    if not isinstance(data, dict):
        what = "the file is empty" if data is None else f"expected a mapping at the top, got {shown(data)}"
        return None, [*known, Finding((), f"{what}; a pipeline begins with `name: ...` and `kafka: ...`")]
    findings = list(known)
    doubts = _Doubts()
    for finding in findings:
        if finding.position is None:  # else it concerns the file's text, and the value itself may be right
            doubts.add(finding.path)
            _repair(data, finding)
    for _ in range(_ROUNDS):
        try:
            pipeline = Pipeline.model_validate(data)
        except ValidationError as error:
            # Unknown keys first, so that the key that was meant is not also reported as missing.
            for details in sorted(error.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden"):
                finding, doubt = _finding(details)
                if details["type"] != "missing" or not any(path in doubts for path in _wanted_for(finding.path)):
                    findings.append(finding)
                doubts.add(doubt)
                _repair(data, finding)
        else:
            # Drop findings of rules that depend on a value that was refused itself.
            findings += [found for found in broken_rules(pipeline) if not doubts.touch(found.path, *found.about)]
            return pipeline, findings
    return None, findings


class _Doubts:
    """The paths that were refused. They touch what is at them, inside them, or around them."""

    def __init__(self) -> None:
        self._paths: set[Path] = set()
        self._around: set[Path] = set()

    def __contains__(self, path: Path) -> bool:
        return path in self._paths

    def add(self, path: Path) -> None:
        self._paths.add(path)
        self._around.update(path[:length] for length in range(len(path) + 1))

    def touch(self, *paths: Path) -> bool:
        return any(
            path in self._around or any(path[:length] in self._paths for length in range(1, len(path)))
            for path in paths
        )


def _finding(details: ErrorDetails) -> tuple[Finding, Path]:
    """What pydantic found, in the file's words, and the path that is doubtful for it."""
    path: Path = tuple(step for step in details["loc"] if step != "[key]")
    kind = details["type"]
    if kind == "extra_forbidden":
        return _unknown_key(path)
    if kind == "missing":
        field = keys_of(section_at(path[:-1]) or Pipeline)[str(path[-1])]
        return Finding(path, f"missing: {field.description}"), path
    if kind in _MAPPING:
        return Finding(path, f"expected a mapping (`key: value` pairs), got {shown(details['input'])}"), path
    if kind in _LIST:
        return Finding(path, f"expected a list (`- item` or `[item, item]`), got {shown(details['input'])}"), path
    wrong = details.get("ctx", {}).get("error")
    if isinstance(wrong, Wrong):
        return Finding(path, str(wrong), key=path != details["loc"], offset=wrong.offset), path
    return Finding(path, details["msg"]), path


def _wanted_for(path: Path) -> tuple[Path, ...]:
    """The paths that would have supplied a missing key: itself, misspelt, or the key that its default comes from."""
    section = section_at(path[:-1])
    source = section.derived.get(str(path[-1])) if section is not None else None
    return (path,) if source is None else (path, (*path[:-1], source))


def _unknown_key(path: Path) -> tuple[Finding, Path]:
    section = section_at(path[:-1]) or Pipeline
    key, keys = str(path[-1]), tuple(keys_of(section))
    refused = section.why_refused(key)
    if refused is not None:
        return Finding(path, refused, key=True), path
    close = nearest(key, keys)
    if close is not None:
        return Finding(path, f"unknown key; did you mean {close}?", key=True), (*path[:-1], close)
    return Finding(path, f"unknown key; valid keys: {', '.join(keys)}", key=True), path


def _repair(data: Any, finding: Finding) -> None:
    """Makes the value at the path valid: removes it if that is allowed, else puts a stand-in there."""
    path = finding.path
    while path and isinstance(path[-1], int) and section_at(path) is None:
        path = path[:-1]  # an item of a plain list: remove the list
    if not path:
        return
    holder = data
    for step in path[:-1]:
        if not _has(holder, step):
            return
        holder = holder[step]
    value = None if finding.key else stand_in(path)
    if value is None and isinstance(holder, dict):
        holder.pop(path[-1], None)
    elif isinstance(holder, dict) or _has(holder, path[-1]):
        holder[path[-1]] = value


def _has(holder: Any, step: str | int) -> bool:
    if isinstance(holder, list):
        return isinstance(step, int) and step < len(holder)
    return isinstance(holder, dict) and step in holder
