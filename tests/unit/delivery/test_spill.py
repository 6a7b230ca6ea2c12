"""Dead letters that their DLQ takes in no form are in a file, all of them. The log says so, and does not repeat it for
each."""

import json

import pytest

from enrich.delivery.refused.spill import Spill
from enrich.kafka.writing.dead_letters import DeadLetter


def test_each_letter_is_in_the_file_and_many_at_once_are_a_line_in_the_log(
    tmp_path, caplog: pytest.LogCaptureFixture
) -> None:
    kept: list[int] = []
    spill = Spill(tmp_path / "letters.jsonl", lambda: kept.append(1))
    keys = [f"plays/0/{offset}" for offset in range(10)]
    for key in keys:
        spill.keep(DeadLetter(key.encode(), b"v", []))
    lines = [json.loads(line) for line in spill.path.read_text().splitlines()]
    assert [line["key"] for line in lines] == keys
    assert len(kept) == 10
    (record,) = caplog.records
    assert vars(record)["file"] == str(spill.path)
