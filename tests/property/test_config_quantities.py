"""Durations and sizes: written and read back as themselves, and nothing but them is read."""

import re
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from enrich.config.messages.words import Wrong
from enrich.config.types.quantities import LARGEST, LONGEST, duration_text, parse_duration, parse_size, size_text

DURATIONS = st.integers(0, LONGEST // timedelta(milliseconds=1)).map(lambda count: timedelta(milliseconds=count))
UNIT_SIZES = st.sampled_from([1, 2**10, 2**20, 2**30, 2**40])
ROUND = st.builds(lambda count, unit: count * unit, st.integers(0, 2**20), UNIT_SIZES)
UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SIZES = {"B": 1, "kB": 1000, "KB": 1000, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
TEXTS = st.one_of(
    st.text(), st.from_regex(re.compile(r"[-+ ]?[0-9٣]{0,3}[.]?[0-9]{0,13}[a-zA-Z]{0,4}\n?"), fullmatch=True)
)


@given(DURATIONS)
def test_a_duration_written_is_read_as_the_same(duration: timedelta) -> None:
    assert parse_duration(duration_text(duration)) == duration


@given(st.one_of(ROUND, st.integers(0, LARGEST)))
def test_a_size_written_is_read_as_the_same(size: int) -> None:
    assert parse_size(size_text(size)) == size


@given(TEXTS)
def test_a_text_is_a_duration_only_when_it_looks_like_one(text: str) -> None:
    form = re.fullmatch(r"([0-9]+)(ms|s|m|h|d)", text)
    try:
        read = parse_duration(text)
    except Wrong:
        assert form is None or len(form[1]) > 6
        return
    assert read == (
        timedelta(0) if text == "0" else timedelta(milliseconds=int(form[1]) * UNITS[form[2]]) if form else None
    )


@given(TEXTS)
def test_a_text_is_a_size_only_when_it_looks_like_one(text: str) -> None:
    form = re.fullmatch(r"([0-9]+)(B|kB|KB|MB|GB|KiB|MiB|GiB)", text)
    try:
        read = parse_size(text)
    except Wrong:
        assert form is None or len(form[1]) > 8
        return
    assert text.endswith(("TB", "TiB")) or (form is not None and read == int(form[1]) * SIZES[form[2]])
