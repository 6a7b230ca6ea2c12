"""Makes records of a table's changes in the log, as a snapshot of the table would."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from enrich.codecs.encoding import Encoder
from stores.external.postgres.log.literals import Kind
from stores.external.postgres.log.messages import Relation
from stores.external.postgres.log.texts import converter
from stores.external.postgres.log.tuples import Cells, Changes, column_of, differs
from stores.external.postgres.types import Column
from stores.keys import keys_of
from sync_service.sources.logged.headers import Operation

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Records:
    """In the order of the log. A value of None is a tombstone."""

    keys: Sequence[bytes]
    values: Sequence[bytes | None]
    transaction: Sequence[int]
    """Of each record, as `changes` number them."""
    operation: Sequence[Operation]


class LoggedRows:
    """The rows of a table with this shape."""

    def __init__(
        self, relation: Relation, kinds: Mapping[int, Kind], key: Sequence[str], values: Sequence[str], encoder: Encoder
    ) -> None:
        """The relation must have all of these columns."""
        self.relation = relation
        self._key = tuple(key)
        self._values = tuple(values)
        self._encoder = encoder
        self._at = {column.name: index for index, column in enumerate(relation.columns)}
        self._kinds = kinds

    def missing(self, changes: Changes) -> Flags:
        """Changes whose large values were not touched, so that the log has not all of the row."""
        wanted = [self._at[name] for name in self._values]
        return changes.new.is_unchanged[:, wanted].any(axis=1) & ~changes.is_delete

    def key_texts(self, changes: Changes, rows: npt.NDArray[np.int64]) -> Mapping[str, Sequence[str]]:
        found = {}
        for name in self._key:
            texts = column_of(changes.piece, changes.new, self._at[name])
            found[name] = [str(text) for text in texts.take(pa.array(rows)).to_pylist()]
        return found

    def records(
        self, changes: Changes, left_out: Flags, missing: Flags, largest: int
    ) -> tuple[Records, Mapping[str, int]]:
        """`left_out`: changes of which nothing is written. `missing`: of which no row is, but a key that they leave
        gets its tombstone. Returns also how many rows cannot become records, by the reason."""
        new_keys = self._keys(changes, changes.new)
        is_moved = np.zeros(len(changes.transaction), np.bool_)
        for name in self._key:
            is_moved |= differs(changes.piece, changes, self._at[name])
        is_moved &= ~changes.is_delete & ~left_out
        written = np.flatnonzero(~changes.is_delete & ~left_out & ~missing)
        values, reasons = self._encoded(changes, written)
        is_record = np.array([value is not None for value in values], np.bool_)
        moved, deleted = np.flatnonzero(is_moved), np.flatnonzero(changes.is_delete & ~left_out)
        old_keys = self._keys(changes, changes.old)
        # Of a change: first the tombstone of the key that it leaves, then its row.
        order = np.concatenate([moved * 2, written[is_record] * 2 + 1, deleted * 2 + 1])
        keys = [old_keys[i] for i in moved] + [new_keys[i] for i in written[is_record]] + [new_keys[i] for i in deleted]
        all_values = [None] * len(moved) + [value for value in values if value is not None] + [None] * len(deleted)
        at = np.argsort(order, kind="stable")
        operations, chosen = self._operations(changes, is_moved), []
        for i in at.tolist():
            key, value = keys[i], all_values[i]
            if key is None:
                reasons["a part of the key is null"] = reasons.get("a part of the key is null", 0) + 1
            elif value is not None and len(key) + len(value) > largest:
                too_large = f"larger than the topic's limit of {largest} bytes"
                reasons[too_large] = reasons.get(too_large, 0) + 1
            else:
                chosen.append(i)
        change = order[chosen] // 2
        return Records(
            [keys[i] or b"" for i in chosen],
            [all_values[i] for i in chosen],
            changes.transaction[change].tolist(),
            # The tombstone of a key that a change leaves is a deletion, its row is then new.
            [operations[c] if order[i] % 2 else Operation.delete for i, c in zip(chosen, change.tolist(), strict=True)],
        ), reasons

    def _operations(self, changes: Changes, is_moved: Flags) -> list[Operation]:
        kinds = np.where(changes.is_insert | is_moved, 0, np.where(changes.is_delete, 2, 1))
        names = (Operation.insert, Operation.update, Operation.delete)
        return [names[kind] for kind in kinds.tolist()]

    def _encoded(self, changes: Changes, rows: npt.NDArray[np.int64]) -> tuple[list[bytes | None], dict[str, int]]:
        if not len(rows):
            return [], {}
        batch = self._batch(changes, changes.new, self._values, rows)
        self._encoder.check(batch.schema)
        encoded = self._encoder.encode(batch)
        reasons: dict[str, int] = {}
        for reason in encoded.bad.values():
            reasons[reason] = reasons.get(reason, 0) + 1
        return encoded.values.to_pylist(), reasons

    def _keys(self, changes: Changes, cells: Cells) -> list[bytes | None]:
        rows = np.arange(len(changes.transaction))
        return list(keys_of(self._batch(changes, cells, self._key, rows), self._key).to_pylist())

    def _batch(
        self, changes: Changes, cells: Cells, names: Sequence[str], rows: npt.NDArray[np.int64]
    ) -> pa.RecordBatch:
        arrays, fields = [], []
        for name in names:
            sent = self.relation.columns[self._at[name]]
            kind = self._kinds[sent.type_id]
            # Of a domain the values are those of the type beneath it, as in a snapshot.
            modifier = sent.type_modifier if kind.modifier < 0 else kind.modifier
            column = Column(name, kind.type_id, modifier, _category(kind))
            texts = column_of(changes.piece, cells, self._at[name])
            if len(rows) < len(texts):
                texts = texts.take(pa.array(rows))
            arrays.append(converter(column, kind)(texts))
            fields.append(column.field)
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _category(kind: Kind) -> str:
    if kind.element is not None:
        return "A"
    return "C" if kind.fields is not None else "U"
