"""Events that are sent over and over, each with the time at which it is due."""

import json
from pathlib import Path

import pytest

from enrich.admin.rating.samples import Samples
from enrich.base.errors import ConfigError


def test_the_field_of_the_time_is_replaced_wherever_it_is_and_nothing_else(tmp_path: Path):
    file = tmp_path / "events.jsonl"
    file.write_text(
        '{"id": 1, "at": {"ts": "2020-01-01T00:00:00Z"}, "text": "ä \\u0000time"}\n\n{"at": {"ts": 5, "x": []}}\n'
    )
    samples = Samples.of_file(file, "at.ts")
    first, second, third = samples.take(3, 1_234)
    assert json.loads(first) == {"id": 1, "at": {"ts": 1_234}, "text": "ä \x00time"}
    assert json.loads(second) == {"at": {"ts": 1_234, "x": []}}
    assert third == first
    assert json.loads(samples.take(1, 9)[0])["at"]["ts"] == 9


def test_without_a_time_they_are_sent_as_they_are():
    assert list(Samples([b'{"a":  1}'], None, "x").take(2, 5)) == [b'{"a":  1}'] * 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there are no events"),
        ("{", "this is no JSON"),
        ("[" * 100_000, "this is no JSON"),
        ('{"a": 1}', "it has no b.ts"),
        ("[]", "it has no b.ts"),
    ],
)
def test_what_cannot_be_sent_is_refused_by_its_line(tmp_path: Path, text: str, problem: str):
    file = tmp_path / "events.jsonl"
    file.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        Samples.of_file(file, "b.ts")
    with pytest.raises(ConfigError, match="cannot be read"):
        Samples.of_file(tmp_path / "missing", "b.ts")
