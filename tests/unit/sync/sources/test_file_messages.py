"""What is wrong with a file is told with the file's name, and how to mend it."""

import os

import pytest

from enrich.base.errors import ConfigError
from stores.external.files.formats import FileFormat
from stores.external.files.reading import FileReader
from sync_service.sources.polled.files import FileSource
from sync_service.sources.polled.source import Progress


@pytest.mark.parametrize(("header", "advice"), [("id;plan", "with commas"), ("name,plan", "correct `key`")])
def test_a_file_without_the_key_is_named(tmp_path, header, advice):
    path = tmp_path / "rows.csv"
    path.write_text(f"{header}\n1;p\n")
    os.utime(path, (1_000, 1_000))  # it rests
    source = FileSource(FileReader(str(path), FileFormat.csv), ("id",), tmp_path / "work")
    with pytest.raises(ConfigError) as raised, source.ask(Progress(), None):
        pass
    assert raised.value.where == f"file {path}"
    assert advice in str(raised.value.next_step)
