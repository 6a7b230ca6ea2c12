"""A manifest that is not whole is never taken for one with fewer tables."""

import pytest

from stores.errors import CorruptState
from stores.segments.manifest import Manifest, ManifestFile, ManifestParser, TableState, read_raw_manifest
from stores.table import Seq


@pytest.mark.parametrize("needed", [None, ["right"]])
def test_a_manifest_that_was_cut_anywhere_is_damaged(tmp_path, needed):
    tables = {name: TableState(positions={0: 5}) for name in ("left", "right")}
    ManifestFile(tmp_path).write(Manifest(Seq("a store", 0, 7), "boot", tables))
    raw = read_raw_manifest(tmp_path)
    assert "right" in ManifestParser(tmp_path, needed).parse(raw).tables
    for length in range(len(raw)):
        with pytest.raises(CorruptState):
            ManifestParser(tmp_path, needed).parse(raw[:length])


def test_a_manifest_in_which_any_byte_is_another_one_is_damaged(tmp_path):
    tables = {name: TableState(positions={0: 5}) for name in ("left", "right")}
    ManifestFile(tmp_path).write(Manifest(Seq("a store", 0, 7), "boot", tables))
    raw = read_raw_manifest(tmp_path)
    for place, byte in enumerate(raw):
        with pytest.raises(CorruptState):
            ManifestParser(tmp_path).parse(raw[:place] + bytes([byte ^ 0x10]) + raw[place + 1 :])
