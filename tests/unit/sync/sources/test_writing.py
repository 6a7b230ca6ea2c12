"""What is known of a topic is never ahead of it: a change that is taken for written is never written again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from enrich.base.errors import Unreachable
from enrich.kafka.writing.transactions import Span
from sync_service.sources.known.rows import KnownRows, digests_of
from sync_service.sources.writing import Writer


class Producer:
    """Its transactions get these places, or none: then the brokers do not answer the commit."""

    def __init__(self, spans: Mapping[int, Span] | None) -> None:
        self._spans = spans

    @contextmanager
    def transaction(self) -> Iterator[dict[int, Span]]:
        spans: dict[int, Span] = {}
        yield spans
        if self._spans is None:
            raise Unreachable("no answer")
        spans.update(self._spans)

    def produce(self, *_: object) -> None: ...


@pytest.fixture
def known(tmp_path: Path) -> Iterator[KnownRows]:
    known = KnownRows.make(tmp_path / "known", "topic-1")
    known.note(positions={0: 5})
    yield known
    known.close()


def write(known: KnownRows, spans: Mapping[int, Span] | None) -> None:
    digests = pa.array([digest.tobytes() for digest in digests_of([b"v"])], pa.binary(16))
    columns = [pa.array([b"k"]), pa.array([b"v"]), digests, pa.array([-1])]
    differences = pa.RecordBatch.from_arrays(columns, names=["key", "value", "digest", "slot"])
    Writer(cast(Any, Producer(spans)), "rows", known).write([differences], lambda _: None)


def test_what_may_not_be_committed_is_not_known(known: KnownRows) -> None:
    with pytest.raises(Unreachable):
        write(known, None)
    assert (known.rows, known.positions) == (0, {0: 5})
    assert known.lookup([b"k"]).slots.tolist() == [-1]


@pytest.mark.parametrize(
    ("span", "after_our_commit", "position"),
    [
        (Span(5, 5, 1), False, 6),
        (Span(6, 6, 1), True, 7),
        (Span(6, 6, 1), False, 5),
        (Span(7, 7, 1), True, 5),
        (Span(5, 7, 2), False, 5),
    ],
    ids=["at once", "after our marker", "after another's record", "after both", "with another's record among them"],
)
def test_the_position_passes_our_records_and_no_record_of_others(
    known: KnownRows, span: Span, after_our_commit: bool, position: int
) -> None:
    if after_our_commit:
        known.markers.add(0)
    write(known, {0: span})
    assert known.positions == {0: position}
