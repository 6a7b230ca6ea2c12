"""JSON events with some of their members only, so that a parser can read them in columns whatever else is in them."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from enrich.codecs.joining import joined
from enrich.stage.events.fitting import fitting, may_fit
from enrich.stage.events.maps import KEY, VALUE, can_list
from enrich.stage.events.places import Marks, Spans, entries, found
from enrich.stage.events.text import name_text
from enrich.stage.task.fate import Mask


def alone(events: pa.BinaryArray, fields: pa.StructType) -> tuple[pa.BinaryArray, Mask]:
    """Each event as an object with these fields only, each once; and the events of which this could not be made. Only
    for usable events.

    A value that is of no use for its field, such as text for a number, is null. Whole numbers, `true` and `false` are
    quoted where text is wanted. A map is written as `listed` has it. Inside of lists all stays as it is.
    """
    making = _Alone(events)
    return making.object(fields, making.whole, 1), making.is_odd


class _Alone:
    """One batch."""

    def __init__(self, events: pa.BinaryArray) -> None:
        self._marks = marks = Marks.of(events)
        self.is_odd = marks.with_escaped_names()
        self.whole = Spans(marks.starts, np.append(marks.starts[1:], len(marks.content)))

    def object(self, fields: pa.StructType, inside: Spans, deep: int) -> pa.BinaryArray:
        parts: list[pa.Array | pa.Scalar] = []
        for field in fields:
            values = found(self._marks, field.name.encode(), deep, inside)
            self.is_odd[values.rows[~values.is_known]] = True
            spans = Spans.last_of(values.kept(values.is_known), len(self._marks.starts))
            parts.append(_bytes((b"," if parts else b"{") + name_text(field.name) + b":"))
            parts.append(self._value(field.type, spans, deep))
        return joined(*parts, _bytes(b"}"))

    def _value(self, kind: pa.DataType, spans: Spans, deep: int) -> pa.BinaryArray:
        first = np.where(spans.are_there, self._marks.content[spans.begins], 0)
        is_object = pa.types.is_struct(kind) and kind.num_fields
        if not is_object and not can_list(kind):
            texts = fitting(spans.texts(self._marks.content), first, kind)
            return pc.fill_null(texts, _bytes(b"null"))
        fits = may_fit(first, kind)
        inside = Spans(np.where(fits, spans.begins, 0), np.where(fits, spans.ends, 0))
        texts = self.object(kind, inside, deep + 1) if is_object else self._list(kind, inside, deep + 1)
        return pc.if_else(pa.array(fits), texts, _bytes(b"null"))

    def _list(self, kind: pa.MapType, inside: Spans, deep: int) -> pa.BinaryArray:
        """`[{"k":"a","v":1}]` for `{"a":1}`."""
        marks = self._marks
        members = entries(marks, deep, inside)
        self.is_odd[members.rows[~members.is_known]] = True
        members = members.kept(~self.is_odd[members.rows])
        cuts = np.zeros((len(members.rows), 4), np.int32)
        cuts[:, 0], cuts[:, 1] = marks.opens[members.names], marks.closes[members.names] + 1
        cuts[:, 2], cuts[:, 3] = members.begins, members.ends
        ends = np.concatenate([[0], cuts.ravel(), [len(marks.content)]]).astype(np.int32)
        pieces = pa.Array.from_buffers(
            pa.binary(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(marks.content)]
        )
        # In turn: what is before a name, the name, what is between, the value.
        places = 4 * np.arange(len(cuts))
        names, values = pieces.take(pa.array(places + 1)), pieces.take(pa.array(places + 3))
        values = fitting(values, marks.content[members.begins], kind.item_type)
        texts = joined(_bytes(b'{"%s":' % KEY), names, _bytes(b',"%s":' % VALUE), values, _bytes(b"}"))
        counts = np.bincount(members.rows, minlength=len(marks.starts))
        lists = pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32()), texts)
        return joined(_bytes(b"["), pc.binary_join(lists, _bytes(b",")), _bytes(b"]"))


def _bytes(text: bytes) -> pa.Scalar:
    return pa.scalar(text, pa.binary())
