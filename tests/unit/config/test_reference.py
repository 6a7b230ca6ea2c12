"""The page for users says of every key what the models know, and of no other; its example is what the loader says."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from enrich.config import load_text
from enrich.config.shape import every_key, every_section, keys_of, stand_in, stand_in_section
from enrich.config.show import as_data
from tests.unit.config.helpers import HEAD, lines_of

PAGE = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
ROWS = [line.strip().strip("|").split(" | ") for line in PAGE.splitlines() if re.match(r"\| `[a-z_]+(\.|`)", line)]
DOCUMENTED = {row[0].strip().strip("`"): [cell.strip() for cell in row[1:]] for row in ROWS if len(row) == 4}
KEYS = dict(every_key())
ENCODING = ("format", "schema", "file", "framing")
NAMED = ("tables", "stages", "sync.writeback", "sync.sources", "ingest", "expel")
DERIVED = {
    "tables.<name>.format",
    "tables.<name>.columns",
    "stages.<name>.checkpoint",
    "sync.writeback.<name>.columns",
    "sync.writeback.<name>.dlq",
    "ingest.<name>.dlq",
    "expel.<name>.dlq",
}


def test_every_key_is_in_the_page_and_no_other() -> None:
    assert sorted(DOCUMENTED) == sorted(KEYS)


def test_every_key_has_a_meaning_and_every_required_one_says_so() -> None:
    for key, (meaning, default, _) in DOCUMENTED.items():
        assert meaning.endswith((".", "below")), key
        derived = key in DERIVED
        assert not KEYS[key].is_required() or derived or default == "required", key


def _shown(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Keys as the page writes them, and values as a file would."""
    if isinstance(value, dict):
        for key, inner in value.items():
            named = "<name>" if path in NAMED else key
            yield from _shown(inner, f"{path}.{named}" if path else named)
    elif isinstance(value, list):
        for inner in value:
            yield from _shown(inner, f"{path}[]")
    else:
        yield path, str(value).lower() if isinstance(value, bool) else str(value)


def test_the_defaults_in_the_page_are_the_loaders() -> None:
    tables = "{a: {topic: a, format: string}, b: {loader: {redis: redis://h}, format: string}}"
    stage = "{source: {topic: s, format: string}, sink: {topic: t}, lookups: [{table: a, key: value, as: x}]}"
    redis, postgres = "{redis: {url: redis://h}}", "{postgres: {dsn: postgresql://h, table: t, key: [id]}}"
    routes = f"{{r: {{topic: a, format: string, to: {redis}}}, p: {{topic: a, format: string, to: {postgres}}}}}"
    origins = "postgres: {dsn: postgresql://h, table: t, key: [id], cursor: at}", "file: {path: /f.csv, key: [id]}"
    sources = ", ".join(
        f"{name}: {{topic: s{name}, format: json, from: {{{origin}}}}}"
        for name, origin in zip("ab", origins, strict=True)
    )
    sources = f"{{{sources}}}"
    text = f"{HEAD}tables: {tables}\nstages: {{s: {stage}}}\nsync: {{writeback: {routes}, sources: {sources}}}"
    text += "\ningest: {i: {topic: i, path: /i, format: json}}\nexpel: {p: {topic: e, to: {http: {url: http://h}}}}"
    shown = dict(_shown(as_data(load_text(text, {})), ""))
    for key, (_, default, _) in DOCUMENTED.items():
        written = re.fullmatch(r"`([^`]+)`", default)
        if written is not None and key in shown:
            told = written[1]
            for part, name in {"pipeline": "plays", "stage": "s", "route": "p", "ingest": "i"}.items():
                told = told.replace(f"<{part}>", name)
            assert shown[key] in (told, str(Path(told).absolute())), key


def test_every_key_is_described_in_the_models() -> None:
    assert [key for key, field in KEYS.items() if not (field.description or "").endswith(".")] == []


def _is_said_in_general(key: str) -> bool:
    """Of values and their encoding: the model says it for all sections that have them, the page for each."""
    return key.rpartition(".")[2] in ENCODING and key.startswith(("tables.", "stages.", "sync.", "ingest."))


def test_the_models_say_what_the_page_says() -> None:
    for key, (meaning, default, _) in DOCUMENTED.items():
        text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", meaning)
        description = KEYS[key].description or ""
        if key.startswith("kafka.client."):  # the page adds for whom a setting is, and its limits
            assert description.rstrip(".").casefold() in text.replace("`", "").casefold(), key
        elif not _is_said_in_general(key):
            assert description in (text, f"{text} Default: {default}."), key


def test_the_mistakes_of_the_page_are_told_as_the_page_says() -> None:
    text = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    told = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert text is not None and told is not None
    assert lines_of(text[1]) == [line.removeprefix("plays.yaml:") for line in told[1].splitlines()]


def test_every_required_key_has_something_to_stand_in_for_it() -> None:
    """Without one, a missing key would hide what else is wrong."""
    for key, field in KEYS.items():
        if field.is_required():
            path = tuple(int(step) if step == "0" else step for step in key.replace("[]", ".0").split("."))
            assert stand_in(path) is not None, key


def test_a_pipeline_of_nothing_but_stand_ins_is_a_pipeline() -> None:
    for section in every_section():
        required = [key for key, field in keys_of(section).items() if field.is_required()]
        assert required == [] or section.model_validate(stand_in_section(section))
