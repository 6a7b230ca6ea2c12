"""When events happened, came to their worker and left it; and how late that was, for the stage's metrics."""

import base64
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from enrich.stage.steps.step import Columns, Work
from enrich.stage.task.columns import CAME, EVENT_TIME, LAG_REPORT, TIME, TIME_HEADER, TIMESTAMP, VALUE
from enrich.stage.task.pin import Pin


@dataclass(frozen=True)
class NoteArrival:
    """When a batch came to its worker, unless whoever read it has said so."""

    needs: Collection[str] = (VALUE,)

    @property
    def makes(self) -> Mapping[str, pa.DataType]:
        return {CAME: pa.int64()}

    def begin(self, pin: Pin | None) -> Work:  # noqa: ARG002 - it reads no table
        return lambda columns: {} if CAME in columns else came_now(len(columns[VALUE]))


def came_now(count: int) -> Columns:
    return {CAME: pa.repeat(time.time_ns() // 10**6, count)}


@dataclass(frozen=True)
class FindTimes:
    """When each event happened: its header says so, else the stage's `event_time`, else its record."""

    is_declared: bool

    @property
    def needs(self) -> Collection[str]:
        return [TIME_HEADER, TIMESTAMP, *([TIME] if self.is_declared else [])]

    @property
    def makes(self) -> Mapping[str, pa.DataType]:
        return {EVENT_TIME: pa.int64()}

    def begin(self, pin: Pin | None) -> Work:  # noqa: ARG002 - it reads no table
        from stores.keys import milliseconds

        def find(columns: Columns) -> Columns:
            times = milliseconds(columns[TIMESTAMP])
            if self.is_declared:
                times = pc.coalesce(milliseconds(columns[TIME]), times)
            headers = columns[TIME_HEADER]
            if headers.null_count < len(headers):
                texts = text_of(headers)
                known = pc.fill_null(pc.match_substring_regex(texts, r"^-?[0-9]{1,18}$"), False)
                times = pc.if_else(known, number_of(texts, known), times)
            # One that came without a time has none to be late by.
            return {EVENT_TIME: pc.fill_null(times, 0)}

        return find


@dataclass(frozen=True)
class ReportLags:
    """After the other steps: a batch's histograms of lag, on its first event, as the other reports of workers are."""

    needs: Collection[str] = (CAME, EVENT_TIME)

    @property
    def makes(self) -> Mapping[str, pa.DataType]:
        return {LAG_REPORT: pa.string()}

    def begin(self, pin: Pin | None) -> Work:  # noqa: ARG002 - it reads no table
        # Imported in the worker only.
        from enrich.tally.encoding import encoded_lag
        from enrich.tally.lags import Lag

        def report(columns: Columns) -> Columns:
            times, came_ms = columns[EVENT_TIME].to_numpy(), columns[CAME].to_numpy()
            lag = Lag.of(times, came_ms, time.time_ns() // 10**6)
            text = base64.b64encode(encoded_lag(lag)).decode("ascii")
            first = pa.array([text][: len(times)], pa.string())
            return {LAG_REPORT: pa.concat_arrays([first, pa.nulls(len(times) - len(first), pa.string())])}

        return report


def text_of(headers: pa.BinaryArray) -> pa.StringArray:
    """Headers as text."""
    try:
        return headers.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8: anybody may write into a topic
        return pa.array([None if h is None else h.decode("ascii", "replace") for h in headers.to_pylist()], pa.string())


def number_of(texts: pa.StringArray, known: pa.BooleanArray) -> pa.Int64Array:
    """0 where it is not known to be one."""
    return pc.if_else(known, texts, "0").cast(pa.int64())
