"""A segment in which bits went over on the disk, unseen by the file system: an error that says so, or an answer."""

import struct

import numpy as np
import pyarrow as pa
import pytest

from enrich.codecs import JsonDecoder
from stores.errors import CorruptState
from stores.protocol import TableSpec
from stores.segments.file import Stamp, Written
from stores.segments.layout import ENTRY, VERSION
from stores.segments.manifest import TableState
from stores.segments.probes import LastProbes
from stores.segments.read.key_filter import KeyFilter
from stores.segments.read.table import TableSegments
from stores.segments.read.view import SegmentsTable
from stores.segments.segment import Segment
from stores.segments.sources import Decoded
from stores.segments.write.build import build_segment
from stores.table import TIMESTAMP, Status, row_versions
from tests.contract.stores.store_under_test import version

COLUMNS = pa.schema([("text", pa.string()), ("list", pa.list_(pa.string())), ("flag", pa.bool_())])
SPEC = TableSpec(COLUMNS, JsonDecoder(COLUMNS), 1_000)
KEYS = ["alone", "twice", "a key of more than sixteen bytes"]
AS_OF = {"as_of": pa.array([10_000] * 3, TIMESTAMP)}


@pytest.fixture
def segment(tmp_path):
    def row(number):
        return {"text": "a text of more than twelve bytes", "list": ["x" * number, "y"], "flag": True}

    versions = row_versions(version(key, number, row(number)) for number, key in enumerate([*KEYS, "twice"]))
    decoded = Decoded(versions, SPEC.decoder.decode(versions.column("value")).rows)
    written = build_segment(tmp_path / "a.segment", COLUMNS, [decoded], {})
    return Segment(tmp_path, written, COLUMNS, is_trusted=True)


def with_bytes(segment, section, at, content):
    """The same file with other bytes there, believed as one that nobody has touched."""
    start, length = segment.file.facts["sections"][section]
    assert at + len(content) <= length
    data = bytearray(segment.file.path.read_bytes())
    data[start + at : start + at + len(content)] = content
    path = segment.file.path.with_name("flipped.segment")
    path.write_bytes(data)
    written = Written(path.name, segment.written.checksum, Stamp.of(path))
    return Segment(path.parent, written, COLUMNS, is_trusted=True)


def field_of(layout, number, field):
    return number * layout.itemsize + layout.fields[field][1]


def ask(segment, **options):
    together = TableSegments(COLUMNS, [segment], KeyFilter())
    view = SegmentsTable(SPEC, TableState(positions={0: 9}), together, lambda: None, LastProbes())
    return view.lookup(pa.array(KEYS), COLUMNS.names, **options)


def test_nothing_is_wrong_with_the_segment_itself(segment):
    for options in ({}, {"pin": {0: 9}}, AS_OF, {**AS_OF, "pin": {0: 9}}):
        assert ask(segment, **options).status.to_pylist() == [0, 0, 0]


@pytest.mark.parametrize("partition", [-1, -7, -(2**31)])
def test_no_pin_shows_a_version_of_a_negative_partition_and_nothing_is_read_before_the_pin(segment, partition):
    flipped = with_bytes(segment, "entries", field_of(ENTRY, 0, "partition"), struct.pack("<i", partition))
    with pytest.raises(CorruptState, match="points beyond its own end"):
        ask(flipped, **AS_OF, pin={0: 9})
    flipped = segment
    for number in range(len(segment.version_records)):
        at = field_of(VERSION, number, "partition")
        flipped = with_bytes(flipped, "versions", at, struct.pack("<i", partition))
    assert ask(flipped, **AS_OF, pin={0: 9}).status.to_pylist() == [Status.HIT, Status.MISS, Status.HIT]


@pytest.mark.parametrize(
    ("section", "content"),
    [
        ("column-0", struct.pack("<IIQ", 1 << 20, 0, 5)),  # a text that is longer than all of them
        ("column-0", struct.pack("<IIQ", 20, 0, 1 << 40)),  # one that stands beyond the end
        ("column-3", struct.pack("<3q", 0, 1 << 30, 4)),  # lists that end where there is nothing
        ("column-5", struct.pack("<3q", 0, -9, 4)),  # texts in lists, before the first one
    ],
)
def test_a_value_beyond_the_end_of_its_column_is_an_error_that_names_the_file(segment, section, content):
    flipped = with_bytes(segment, section, 0, content)
    with pytest.raises(CorruptState, match="segment") as caught:
        ask(flipped)
    assert "flipped.segment" in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((field, -2) for field in ("key_start", "key_length", "versions_start", "versions_count", "partition")),
        *((field, 1 << 20) for field in ("key_start", "key_length", "versions_start", "versions_count", "row")),
    ],
)
def test_what_goes_through_a_whole_segment_looks_at_its_places_first(segment, field, value):
    number = KEYS.index("alone" if field in ("partition", "row") else "twice")
    kind = ENTRY[field]
    flipped = with_bytes(segment, "entries", field_of(ENTRY, number, field), np.array(value, kind).tobytes())
    with pytest.raises(CorruptState, match="points beyond its own end"):
        list(flipped.chunks())
    if field.startswith("key"):
        with pytest.raises(CorruptState, match="points beyond its own end"):
            KeyFilter().cover([flipped])
