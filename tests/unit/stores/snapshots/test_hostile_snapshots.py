"""Snapshots made to harm, checksums and all: nothing of them reaches memory or a table that was not checked."""

import json
import multiprocessing
import struct
from dataclasses import replace

import pyarrow as pa
import pytest

from stores.errors import ConfigError, CorruptState
from stores.snapshots import files
from stores.snapshots.bounds import decompressed_size
from stores.table import ROW_VERSIONS, RowVersion, row_versions
from tests.support.stores.snapshots import make_snapshot, read_all, sign


@pytest.fixture
def snapshot(tmp_path):
    return make_snapshot(tmp_path)


def stream(schema, batches, compression=None):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def put(snapshot, content, versions=1):
    file = snapshot.manifest.files[0]
    (snapshot.path / file.name).write_bytes(content)
    sign(snapshot, replace(snapshot.manifest, files=(replace(file, versions=versions),)))


def first_message(content):
    messages = pa.ipc.MessageReader.open_stream(content)
    messages.read_next_message()
    return messages.read_next_message()


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_the_size_of_a_batch_is_known_before_it_is_read(compression):
    batch = row_versions([RowVersion(b"k", 0, 0, 0, b"v" * 100_000), RowVersion(b"k", 0, 1, 0, None)])
    message = first_message(stream(ROW_VERSIONS, [batch], compression))
    size = decompressed_size(message)
    assert 100_000 < size < 101_000
    read = pa.ipc.read_record_batch(message, ROW_VERSIONS)
    assert read.get_total_buffer_size() <= size + 64


def test_few_bytes_that_would_become_gigabytes_are_refused(snapshot):
    batch = row_versions([RowVersion(b"k", 0, 0, 0, b"\0" * (300 << 20))])
    content = stream(ROW_VERSIONS, [batch], "zstd")
    assert len(content) < 1 << 20
    put(snapshot, content)
    with pytest.raises(CorruptState, match="more than 256 MiB"):
        read_all(snapshot.path)


def test_a_buffer_that_claims_more_than_there_is_memory_is_refused(snapshot):
    value = b"v" * 5_000
    content = stream(ROW_VERSIONS, [row_versions([RowVersion(b"k", 0, 0, 0, value)])], "lz4")
    put(snapshot, content.replace(struct.pack("<q", len(value)), struct.pack("<q", 1 << 60)))
    with pytest.raises(CorruptState, match="more than 256 MiB"):
        read_all(snapshot.path)
    put(snapshot, content.replace(struct.pack("<q", len(value)), struct.pack("<q", -5)))
    with pytest.raises(CorruptState, match="negative length"):
        read_all(snapshot.path)


def test_a_message_that_claims_more_than_there_is_memory_is_refused(snapshot):
    content = stream(ROW_VERSIONS, [row_versions([RowVersion(b"k", 0, 0, 0, b"v")])])
    put(snapshot, content[:4] + struct.pack("<i", (1 << 31) - 8) + content[8:])
    with pytest.raises(CorruptState):
        read_all(snapshot.path)


def test_other_columns_dictionaries_and_nulls_are_refused(snapshot):
    batch = row_versions([RowVersion(b"k", 0, 0, 0, b"v")])
    others = {
        "extra": batch.append_column("extra", pa.array([1])),
        "dictionary": pa.record_batch({"key": pa.array([b"k"]).dictionary_encode()}),
        "none": pa.record_batch({}),
        "nullable": pa.RecordBatch.from_arrays(batch.columns, names=batch.schema.names),
    }
    for name, other in others.items():
        put(snapshot, stream(other.schema, [other]))
        with pytest.raises(CorruptState, match="row versions"):
            read_all(snapshot.path)
        assert name
    columns = [batch.columns[0], pa.array([None], pa.int32()), *batch.columns[2:]]
    put(snapshot, stream(ROW_VERSIONS, [pa.RecordBatch.from_arrays(columns, schema=ROW_VERSIONS)]))
    with pytest.raises(CorruptState, match="null"):
        read_all(snapshot.path)


@pytest.mark.parametrize("changes", [{335: 3, 20: 2}, {29: 8, 250: 255}, {195: 7, 20: 2}])
def test_a_schema_with_changed_bytes_never_reaches_arrow_which_crashes_over_some(snapshot, changes):
    content = bytearray(stream(ROW_VERSIONS, [row_versions([RowVersion(b"k", 0, 0, 0, b"v")])]))
    for at, value in changes.items():
        content[at] = value
    put(snapshot, bytes(content))
    # In a process of its own: the fault would end this one.
    context = multiprocessing.get_context("fork")
    reading = context.Process(target=_expect_no_row_versions, args=(snapshot.path,))
    reading.start()
    reading.join()
    assert reading.exitcode == 0


def _expect_no_row_versions(path):
    with pytest.raises(CorruptState, match="it does not hold row versions"):
        read_all(path)


def test_what_this_arrow_writes_can_be_read_by_a_release_with_another():
    # If this fails after another Arrow: add its digest to _SCHEMA_MESSAGES and keep the ones that are there.
    assert files.schema_digest() in files._SCHEMA_MESSAGES


@pytest.mark.parametrize(("partition", "offset"), [(0, 10_000), (0, -1), (7, 0), (-1, 0), (1, 750)])
def test_a_version_outside_the_positions_is_refused(snapshot, partition, offset):
    put(snapshot, stream(ROW_VERSIONS, [row_versions([RowVersion(b"k", partition, offset, 0, b"v")])]))
    with pytest.raises(CorruptState, match="outside its positions"):
        read_all(snapshot.path)


@pytest.mark.parametrize("offsets", [(0, 1 << 30, 155), (0, -5, 155), (100, 77, 155), (0, 77, 1 << 30)])
def test_offsets_of_values_outside_their_buffer_are_refused(snapshot, offsets):
    versions = row_versions([RowVersion(b"k", 0, 0, 0, b"v" * 77), RowVersion(b"l", 0, 1, 0, b"w" * 78)])
    content = stream(ROW_VERSIONS, [versions])
    put(snapshot, content, versions=2)
    assert read_all(snapshot.path)
    at = content.index(struct.pack("<iii", 0, 77, 155))
    put(snapshot, content[:at] + struct.pack("<iii", *offsets) + content[at + 12 :], versions=2)
    with pytest.raises(CorruptState):
        read_all(snapshot.path)


def test_another_number_of_versions_than_the_manifest_says_is_refused(snapshot):
    put(snapshot, stream(ROW_VERSIONS, [row_versions([RowVersion(b"k", 0, 0, 0, b"v")])]), versions=2)
    with pytest.raises(CorruptState, match="1 row versions, 2 are expected"):
        read_all(snapshot.path)


def changed(snapshot, change):
    """The manifest with a change, its checksum computed again."""
    import hashlib

    path = snapshot.path / "manifest.json"
    fields = json.loads(path.read_bytes())
    del fields["sha256"]
    change(fields)

    def rendered(value):
        return json.dumps(value, separators=(",", ":"), sort_keys=True).encode() + b"\n"

    path.write_bytes(rendered({**fields, "sha256": hashlib.sha256(rendered(fields)).hexdigest()}))


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields["files"][0].update(name="../../../etc/passwd"),
        lambda fields: fields["files"][0].update(name="/etc/passwd"),
        lambda fields: fields["files"][0].update(length=-1),
        lambda fields: fields["files"][0].update(length=True),
        lambda fields: fields["files"].append(dict(fields["files"][0])),
        lambda fields: fields["partitions"].append(dict(fields["partitions"][0])),
        lambda fields: fields["partitions"][0].update(position=1 << 63),
        lambda fields: fields["partitions"][0].update(position="3"),
        lambda fields: fields.update(table="\ud800"),
        lambda fields: fields.update(notes={"topic_id": 5}),
        lambda fields: fields.update(notes=[]),
        lambda fields: fields.update(files={}),
        lambda fields: fields.update(key="other"),
        lambda fields: fields.update(unknown=1),
        lambda fields: fields.pop("topic"),
        lambda fields: fields.update(format="1"),
    ],
)
def test_a_manifest_that_says_something_else_than_we_write_is_refused(snapshot, change):
    changed(snapshot, dict.copy)
    assert read_all(snapshot.path)
    changed(snapshot, change)
    with pytest.raises(CorruptState, match="manifest"):
        read_all(snapshot.path)


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"5", b"{}", b"[" * 100_000, b'{"format":NaN}', b"\xff\xfe"])
def test_a_manifest_that_is_none_is_refused(snapshot, content):
    (snapshot.path / "manifest.json").write_bytes(content)
    with pytest.raises(CorruptState, match="manifest"):
        read_all(snapshot.path)


def test_a_newer_format_is_refused_by_name(snapshot):
    changed(snapshot, lambda fields: fields.update(format=2))
    with pytest.raises(ConfigError, match="format 2, this release knows 1"):
        read_all(snapshot.path)
