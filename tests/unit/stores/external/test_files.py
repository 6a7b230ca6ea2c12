"""Files are read whole or not at all."""

import gzip
import lzma
import os
import re
import subprocess
import sys
import zipfile
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import zstandard

from stores.errors import ConfigError, Retryable
from stores.external.files import quotes
from stores.external.files.formats import FileFormat
from stores.external.files.reading import FileReader

ROWS = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("good", pa.bool_()),
    ]
)
EXPECTED = [
    {
        "id": 1,
        "name": "a, b\nc",
        "price": Decimal("1.50"),
        "raw": b"\x00\xff",
        "day": date(2026, 1, 31),
        "at": datetime(2026, 1, 31, 10, tzinfo=UTC),
        "good": True,
    },
    {
        "id": 2,
        "name": "",
        "price": None,
        "raw": None,
        "day": None,
        "at": datetime(2026, 1, 31, 12, 0, 0, 500000, tzinfo=UTC),
        "good": False,
    },
    {"id": 3, "name": None, "price": Decimal("-2.00"), "raw": b"", "day": None, "at": None, "good": None},
]
CSV = (
    "id,name,price,raw,day,at,good,more\n"
    '1,"a, b\nc",1.50,AP8=,2026-01-31,2026-01-31T12:00:00+02:00,true,x\n'
    '2,"",,,,2026-01-31T12:00:00.5,false,\n'
    '3,,-2.00,"",,,,\n'
)
JSON = (
    '{"id":1,"name":"a, b\\nc","price":"1.50","raw":"AP8=","day":"2026-01-31","at":"2026-01-31T12:00:00+02:00",'
    '"good":true,"more":{}}\n'
    '{"id":2,"name":"","at":"2026-01-31T12:00:00.5","good":false}\n'
    '{"price":"-2.00","id":3,"raw":""}\n'
)


def written(path, content):
    """A file that rests already: what was written this moment is not read."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.utime(path, (1_000, 1_000))
    return path


def rows_of(path, kind, columns=None):
    with FileReader(str(path), kind, columns).copied(path.parent / "work") as reading:
        first = [row for batch in reading.batches() for row in batch.to_pylist()]
        again = [row for batch in reading.batches() for row in batch.to_pylist()]
    assert first == again
    assert list((path.parent / "work").iterdir()) == []
    return first


@pytest.mark.parametrize(("kind", "content"), [("csv", CSV), ("json", JSON)])
def test_typed_columns_are_what_the_file_says(tmp_path, kind, content):
    assert rows_of(written(tmp_path / "f", content), FileFormat(kind), ROWS) == EXPECTED


PRICES = pa.schema([("id", pa.string()), ("price", pa.decimal128(10, 2)), ("tail", pa.list_(pa.decimal128(38, 10)))])
READ = """
import sys
from pathlib import Path
from stores.errors import Retryable
from tests.unit.stores.external.test_files import FileFormat, PRICES, pa, rows_of
for path in map(Path, sys.argv[1:]):
    kind = path.suffix[1:]
    try:
        print(rows_of(path, FileFormat(kind), PRICES if kind == "json" else pa.schema(list(PRICES)[:2])))
    except Retryable as error:
        assert "not a whole file" in str(error)
"""


def test_a_number_far_below_zero_ends_no_process_and_is_not_taken_for_zero(tmp_path):
    paths = []
    for index, number in enumerate(["1E-2147483647", "-1.5e-2147483647", "1E-41", "1E-194", "0." + "0" * 50 + "1"]):
        for name, content in {
            "one.csv": f"id,price\na,1\nb,{number}\n",
            "two.json": f'{{"id":"a"}}\n{{"id":"b","price":{number}}}\n',
            "three.json": f'{{"id":"a"}}\n{{"id":"b","tail":[1,"{number}"]}}',
        }.items():
            paths.append(written(tmp_path / f"{index}-{name}", content))
    command = [sys.executable, "-c", READ, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_decimals_of_csv_may_have_exponents_signs_and_space_and_must_fit(tmp_path):
    texts = {
        "1.5e1": "15.00",
        " +7 ": "7.00",
        "-.5": "-0.50",
        "5.": "5.00",
        "100E-2": "1.00",
        "0e-99": "0.00",
        "": None,
    }
    path = written(tmp_path / "f", "id,price\n" + "".join(f"3f7e-41d2-e-12,{text}\n" for text in texts))
    rows = rows_of(path, FileFormat.csv, pa.schema(list(PRICES)[:2]))
    assert [None if row["price"] is None else str(row["price"]) for row in rows] == list(texts.values())
    for text in ("1.234", "123456789", "1e9", "x", "1_0", "NaN", "1e99999999999999999999", '""', "1" * 80):
        with pytest.raises(Retryable, match="does not fit its column's type"):
            rows_of(written(path, f"id,price\na,{text}\n"), FileFormat.csv, pa.schema(list(PRICES)[:2]))


def test_text_that_only_looks_like_such_a_number_is_read(tmp_path):
    path = written(tmp_path / "f", '{"id":"7e-41","price":1E-2}\n{"id":"1E-99","price":"-2.00"}\n')
    assert [row["price"] for row in rows_of(path, FileFormat.json, PRICES)] == [Decimal("0.01"), Decimal("-2.00")]


def test_a_parquet_file_has_its_own_types_or_those_that_were_wanted(tmp_path):
    path = tmp_path / "f.parquet"
    parquet.write_table(pa.Table.from_pylist(EXPECTED, ROWS), path)
    os.utime(path, (1_000, 1_000))
    assert rows_of(path, FileFormat.parquet) == EXPECTED
    wanted = pa.schema([("good", pa.bool_()), ("id", pa.string())])
    assert rows_of(path, FileFormat.parquet, wanted)[0] == {"good": True, "id": "1"}


def test_a_csv_file_without_declared_columns_is_text(tmp_path):
    path = written(tmp_path / "f.csv", "id,n\n007,\n8,1.0\n")
    assert rows_of(path, FileFormat.csv) == [{"id": "007", "n": None}, {"id": "8", "n": "1.0"}]


def test_a_compressed_file_is_read_as_what_is_in_it(tmp_path):
    path = written(tmp_path / "f.csv.gz", gzip.compress(b"id\n1\n"))
    assert rows_of(path, FileFormat.csv) == [{"id": "1"}]
    with pytest.raises(Retryable, match="cannot be read"):
        rows_of(written(path, path.read_bytes()[:-6]), FileFormat.csv)


def test_a_file_of_zstandard_is_read_to_its_end_and_refused_if_that_is_missing(tmp_path):
    """Also where it is cut between two rows. Decompressed blocks have 128 KiB."""
    rows, packed = b"id\n" + b"%07d\n" * 60_000 % tuple(range(60_000)), zstandard.ZstdCompressor()
    rows = rows.replace(b"id\n", b"id" + b" " * 5 + b"\n")  # each block ends with a row
    frame = packed.compress(rows)
    path = written(tmp_path / "f.csv.zst", frame)
    assert len(rows_of(path, FileFormat.csv)) == 60_000
    whole = written(path, frame + packed.compress(b"9999999\n"))
    assert len(rows_of(whole, FileFormat.csv)) == 60_001
    for end in (len(frame) // 2, len(frame) - 1):
        with pytest.raises(Retryable, match="cannot be decompressed"):
            rows_of(written(path, frame[:end]), FileFormat.csv)


def test_an_archive_is_read_if_it_has_one_file_and_else_refused_by_name(tmp_path):
    path = tmp_path / "f.csv.zip"
    for names, said in (
        (["one/", "one/a.csv"], None),
        (["a.csv", "__MACOSX/", "__MACOSX/._a.csv"], None),  # as a Mac makes it
        (["a.csv", "b.csv"], r"2 files: a\.csv, b\.csv$"),
        (["a.csv", "b.csv", "c.csv", "d.csv"], r"4 files: a\.csv, b\.csv, c\.csv, \.\.\.$"),
        ([], "0 files$"),
    ):
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, "" if name.endswith("/") else "id\n1\n")
        os.utime(path, (1_000, 1_000))
        if said is None:
            assert rows_of(path, FileFormat.csv) == [{"id": "1"}]
            continue
        with pytest.raises(Retryable) as raised:
            rows_of(path, FileFormat.csv)
        assert re.search(said, raised.value.what) and raised.value.where == f"file {path}"


@pytest.mark.parametrize("ending", ["gz", "xz", "zip", "bz2", "zst"])
def test_a_compressed_file_with_wrong_bytes_is_refused(tmp_path, ending):
    rows = b"id\n" + b"1\n" * 5_000
    packed = {"gz": gzip.compress(rows), "xz": lzma.compress(rows)}.get(ending, rows)
    spoilt = packed[:20] + bytes(byte ^ 255 for byte in packed[20:])
    with pytest.raises(Retryable, match="cannot be"):
        rows_of(written(tmp_path / f"f.csv.{ending}", spoilt), FileFormat.csv)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('id,name\n1,a\n2,"b\n3,c\n', 3),
        ('id,name\n1,"a\nb"\n2,5" wide\n3,"",\n4,""\n5,"c""\n', 7),
        # Closed only where a later value begins: what is between them are rows.
        ('id,name\n1,a\n2,"b\n3,"c"\n', 3),
        ('\ufeff"id,""no",name\n2,"b\n', 2),
    ],
)
def test_a_quote_that_is_not_closed_is_told_with_its_line_before_any_row(tmp_path, content, line):
    reader = FileReader(str(written(tmp_path / "f.csv", content)), FileFormat.csv)
    with (
        pytest.raises(Retryable, match=f"not closed, of the value that begins in line {line} ") as raised,
        reader.copied(tmp_path / "work"),
    ):
        pass
    assert "double it" in str(raised.value)


def test_quotes_that_arrow_takes_as_text_are_read_as_before(tmp_path):
    path = written(tmp_path / "f.csv", 'id,name\n1,5" wide\n2,"a" or so\n3,"b\n""c"""\n4,"d\n"\n')
    assert [row["name"] for row in rows_of(path, FileFormat.csv)] == ['5" wide', "a or so", 'b\n"c"', "d\n"]


@pytest.mark.parametrize("size", [0, 3, 4_000])
def test_quotes_are_followed_however_the_file_is_read_in_pieces(tmp_path, monkeypatch, size):
    monkeypatch.setattr(quotes, "_PIECE", size or 1)
    values = [f'"{"x" * n}""{"y" * (n % 7)}"' for n in range(300)]
    whole = "id,name\n" + "".join(f"{n},{value}\n" for n, value in enumerate(values))
    assert quotes.open_quote(written(tmp_path / "f", whole)) is None
    assert quotes.open_quote(written(tmp_path / "f", whole + '7,"\n')) == 302


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_a_file_cut_short_inside_a_row_is_refused_wherever_it_was_cut(tmp_path, kind):
    whole = {"csv": CSV, "json": JSON}.get(kind, "").encode()
    path = tmp_path / "f"
    if kind == "parquet":
        parquet.write_table(pa.Table.from_pylist(EXPECTED, ROWS), path)
        whole = path.read_bytes()
    ends_of_rows = {i + 1 for i, byte in enumerate(whole) if byte == ord("\n")} if kind != "parquet" else {len(whole)}
    if kind == "csv":
        ends_of_rows.remove(whole.index(b"\nc") + 1)
    if kind == "json":
        ends_of_rows |= {end - 1 for end in ends_of_rows} | {0}  # an object is whole without its newline
    for end in range(len(whole)):
        written(path, whole[:end])
        if end in ends_of_rows:
            rows_of(path, FileFormat(kind), ROWS)
        else:
            with pytest.raises(Retryable, match=r"not a whole file|has no column"):
                rows_of(path, FileFormat(kind), ROWS)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "empty"),
        ("id,name\n1,a\nsecret\n", "more or fewer values"),
        ("id,id\n1,2\n", "same name"),
        ("id,name\nsecret,a\n", "does not fit"),
        ("other\n1\n", "no column id, name"),
    ],
)
def test_what_is_wrong_with_a_csv_file_is_told_without_its_values(tmp_path, content, said):
    path = written(tmp_path / "f.csv", content)
    with pytest.raises(Retryable, match=said) as raised:
        rows_of(path, FileFormat.csv, pa.schema([("id", pa.int64()), ("name", pa.string())]))
    assert "secret" not in str(raised.value)
    assert raised.value.where == f"file {path}"


def test_a_file_that_changes_while_it_is_copied_is_refused(tmp_path, monkeypatch):
    path = written(tmp_path / "f.csv", "id\n" + "1\n" * 2_000_000)

    def stopping():
        """Called after each piece: another process writes in the middle of the copy."""
        with path.open("r+b") as file:
            file.truncate(100)
        return False

    reader = FileReader(str(path), FileFormat.csv, stopping=stopping)
    with pytest.raises(Retryable, match="changed while it was read"), reader.copied(tmp_path / "work"):
        pass


def test_a_file_of_a_clock_that_is_ahead_is_left_to_rest_too(tmp_path):
    """As on a file server: its times say nothing of when it was written."""
    path, steady_s = tmp_path / "rows.csv", 100.0
    path.write_text("k\na\n")
    ahead = path.stat().st_mtime - 3_600
    reader = FileReader(str(path), FileFormat.csv, now_s=lambda: ahead, steady_s=lambda: steady_s)

    def is_left():
        with pytest.raises(Retryable, match="this moment"), reader.copied(tmp_path / "work"):
            pass

    is_left()
    steady_s += 1.5
    path.write_text("k\na\nb\n")
    is_left()
    steady_s += 1.5
    is_left()
    steady_s += 0.5
    with reader.copied(tmp_path / "work") as reading:
        assert sum(batch.num_rows for batch in reading.batches()) == 2


def test_a_file_that_was_written_this_moment_is_left_to_rest(tmp_path):
    path = tmp_path / "f.csv"
    path.write_text("id\n1\n")
    written_at = path.stat().st_mtime
    early = FileReader(str(path), FileFormat.csv, now_s=lambda: written_at + 1)
    with pytest.raises(Retryable, match="this moment"), early.copied(tmp_path / "work"):
        pass
    later = FileReader(str(path), FileFormat.csv, now_s=lambda: written_at + 3)
    with later.copied(tmp_path / "work") as reading:
        assert sum(batch.num_rows for batch in reading.batches()) == 1


def test_a_look_tells_when_a_file_was_replaced_by_one_of_the_same_size(tmp_path):
    path = written(tmp_path / "f.csv", "id\n1\n")
    reader = FileReader(str(path), FileFormat.csv)
    before = reader.look()
    assert before.known and reader.look() == before
    other = written(tmp_path / "other", "id\n2\n")
    other.rename(path)
    assert reader.look() != before


def test_a_file_of_another_file_system_is_read_through_fsspec(tmp_path):
    import fsspec

    with fsspec.open("memory://there/f.csv", "wb") as file:
        file.write(b"id\n1\n")
    reader = FileReader("memory://there/f.csv", FileFormat.csv)
    with reader.copied(tmp_path) as reading:
        assert [batch.to_pylist() for batch in reading.batches()] == [[{"id": "1"}]]


def test_a_missing_file_may_come_later_and_an_unknown_file_system_never_does(tmp_path):
    with pytest.raises(Retryable, match="no such file"):
        FileReader(str(tmp_path / "none"), FileFormat.csv).look()
    with pytest.raises(ConfigError, match="address cannot be used"):
        FileReader("nowhere://x", FileFormat.csv).look()
    with pytest.raises(ConfigError, match="needs columns"):
        rows_of(written(tmp_path / "f.json", "{}\n"), FileFormat.json)


def test_a_copy_that_finds_no_room_is_not_said_to_be_trouble_of_the_file(tmp_path):
    file, work = tmp_path / "users.csv", tmp_path / "work"
    file.write_text(CSV)
    os.utime(file, (1, 1))
    work.mkdir()
    (work / "copy").symlink_to("/dev/full")
    with pytest.raises(Retryable) as raised, FileReader(str(file), FileFormat.csv).copied(work):
        pass
    assert raised.value.what == "the disk is full"
    assert raised.value.where == str(work / "copy")


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path, kind):
    """A pipe has no content until somebody writes into it, and a device may have no end."""
    path = tmp_path / "users.csv"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match="no file"), FileReader(str(path), FileFormat.csv).copied(tmp_path / "work"):
        pass
