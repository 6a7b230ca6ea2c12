"""The section `snapshots`: a directory, however it is written; what is not built is refused by name."""

from pathlib import Path

import pytest

from enrich.config.messages.words import Wrong
from enrich.config.sections.tables.snapshots import snapshot_location
from tests.unit.config.helpers import changed, load_data, told


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/mnt/snapshots", "/mnt/snapshots"),
        ("file:/mnt/snapshots", "/mnt/snapshots"),
        ("file:///mnt/snapshots", "/mnt/snapshots"),
        ("FILE://localhost/mnt/x", "/mnt/x"),
        ("snapshots", Path.cwd() / "snapshots"),
        ("file:snapshots", Path.cwd() / "snapshots"),
        ("~/x", Path.home() / "x"),
        ("/mnt/a:b", "/mnt/a:b"),
    ],
)
def test_a_path_and_a_file_uri_name_a_directory(text, path):
    assert snapshot_location(text) == Path(path)


@pytest.mark.parametrize("text", ["s3://bucket/x", "hdfs://nn/x", "memory://x", "gs:x"])
def test_what_is_not_built_is_refused_by_name(text):
    with pytest.raises(Wrong, match=f"`{text.partition(':')[0]}:` are not built yet"):
        snapshot_location(text)


def test_the_section_is_optional_and_its_path_is_made_absolute():
    assert load_data(changed()).snapshots is None
    pipeline = load_data(changed(("snapshots", {"path": "file:there"})))
    assert pipeline.snapshots is not None
    assert pipeline.snapshots.path == str(Path.cwd() / "there")
    (problem,) = told(changed(("snapshots", {"path": "s3://bucket"})))
    assert "not built yet" in problem
