"""What a source asks before it deletes too much is a file, which another user may have no right to read."""

from pathlib import Path

import pytest

from enrich.base.errors import ConfigError
from sync_service.sources.known.deletions import open_question


def test_who_may_not_read_the_question_is_told_whom_to_be(tmp_path: Path) -> None:
    assert open_question(tmp_path) is None
    (tmp_path / "deletions-question.json").mkdir()  # root may read every file
    with pytest.raises(ConfigError, match="as the user of the sync service") as raised:
        open_question(tmp_path)
    assert raised.value.where == str(tmp_path / "deletions-question.json")
