"""Sets of places in topics: who an event is on its whole way."""

from collections.abc import Iterable, Iterator, Mapping


class Places:
    """Origins such as `plays.raw/1/4711`, as sets of offsets by partition."""

    def __init__(self) -> None:
        self._offsets: dict[str, set[int]] = {}

    @classmethod
    def of_ranges(cls, ranges: Mapping[str, Iterable[tuple[int, int]]]) -> "Places":
        """Of first and last offsets, by `topic/partition`."""
        places = cls()
        for partition, some in ranges.items():
            offsets = places._offsets.setdefault(partition, set())
            for first, last in some:
                offsets.update(range(first, last + 1))
        return places

    def add(self, origins: Iterable[str]) -> None:
        for origin in origins:
            partition, _, offset = origin.rpartition("/")
            self._offsets.setdefault(partition, set()).add(int(offset))

    def copy(self) -> "Places":
        """Of this moment."""
        return self | Places()

    def __len__(self) -> int:
        return sum(map(len, list(self._offsets.values())))

    def __iter__(self) -> Iterator[str]:
        for partition, offsets in sorted(self._offsets.items()):
            yield from (f"{partition}/{offset}" for offset in sorted(offsets))

    def __sub__(self, other: "Places") -> "Places":
        return self._with({name: own - other._offsets.get(name, set()) for name, own in self._offsets.items()})

    def __or__(self, other: "Places") -> "Places":
        names = self._offsets.keys() | other._offsets.keys()
        return self._with({name: self._offsets.get(name, set()) | other._offsets.get(name, set()) for name in names})

    @staticmethod
    def _with(offsets: dict[str, set[int]]) -> "Places":
        places = Places()
        places._offsets = offsets
        return places
