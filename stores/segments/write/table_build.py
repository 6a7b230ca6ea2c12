"""Builds a table's segments anew from all its row versions, while the old ones answer, and swaps them."""

from typing import Protocol

import pyarrow as pa

from stores.protocol import TableSpec
from stores.segments.file import Written
from stores.segments.write.base import Base, BaseFiles
from stores.segments.write.change import Known
from stores.table import Seq


class Target(Protocol):
    """What a build needs of its writer."""

    def swap(self, build: "TableBuild", base: Written, seq: Seq | None = None, known: Known | None = None) -> None: ...

    def abandon(self, build: "TableBuild") -> None: ...


class TableBuild:
    """One build of one table. Publications go on meanwhile.

    Its base must have every version that was published before the build began. Versions published during the build are
    kept as deltas above the base. The base is made here, by `add` and `finish`, or by another process (`Base`) from
    `files`, and then passed to `take`.
    """

    def __init__(self, target: Target, name: str, spec: TableSpec, files: BaseFiles) -> None:
        self.name = name
        self.files = files
        self.deltas: list[Written] = []
        """Published since the build began."""
        self._target = target
        self._spec = spec
        self._base: Base | None = None
        self._is_abandoned = False

    @property
    def is_abandoned(self) -> bool:
        """Whether it was abandoned, here or by the writer: for another build, or because all rows were replaced."""
        return self._is_abandoned

    def add(self, versions: pa.RecordBatch, rows: pa.StructArray | None = None) -> None:
        """See `Base.add`."""
        if self._base is None:
            self._base = Base(self.files, self._spec)
        self._base.add(versions, rows)

    def finish(self, seq: Seq, known: Known) -> None:
        """Replaces all segments of the table with the new ones. When it raises, the build is abandoned."""
        try:
            base = self._base or Base(self.files, self._spec)
            self._target.swap(self, base.finish(known.floors), seq, known)
        except BaseException:
            self.abandon()
            raise

    def take(self, base: Written) -> None:
        """Makes a base visible that another process has made from `files`, at the newest publication. Raises Fatal if
        the build was abandoned."""
        self._target.swap(self, base)

    def abandon(self) -> None:
        """Gives up; the table is unchanged."""
        self._is_abandoned = True
        self._target.abandon(self)
        if self._base is not None:
            self._base.close()
        self.files.remove()
