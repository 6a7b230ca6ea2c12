"""Whatever is published, loaded, purged, reopened and compacted away: the quarantine holds what a plain list says."""

from collections import Counter
from contextlib import ExitStack, closing

from hypothesis import given
from hypothesis import strategies as st

from stores.protocol import NO_KEY, QuarantineId, TableUpdate
from stores.rocks import RocksReader, RocksStore, Room
from stores.table import RowVersion, row_versions
from tests.contract.stores.store_under_test import table
from tests.support.clock import ManualClock
from tests.support.stores.directories import fast_directory
from tests.support.stores.records import raw_record

SPECS = {"t": table()}
WRONG = "plan: expected text, got a whole number"
KINDS = {"good": (b"k", b"{}"), "wrong": (b"k", b'{"plan":5}'), "keyless": (None, b"{}")}
REASONS = {"wrong": WRONG, "keyless": NO_KEY}

PUBLISH = st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=6).map(lambda kinds: ("publish", kinds))
STEPS = st.lists(
    st.one_of(
        PUBLISH,
        PUBLISH,
        st.sets(st.integers(0, 12)).map(lambda offsets: ("compact", offsets)),
        st.integers(0, 6).map(lambda behind: ("load", behind)),
        st.sets(st.integers(0, 12)).map(lambda offsets: ("purge", offsets)),
        st.just(("reopen", None)),
    ),
    max_size=10,
)


class Model:
    """A topic of one partition and the quarantine of its table."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.topic: dict[int, str] = {}
        self.next_offset = 0
        self.position = 0
        self.kept: list[tuple[int, str]] = []
        self.not_kept: Counter[str] = Counter()

    def come(self, kinds) -> list[RowVersion]:
        """Records written to the topic. All from the position on is returned: what a consumer reads next."""
        for kind in kinds:
            self.topic[self.next_offset] = kind
            self.next_offset += 1
        return self.records(self.position, self.next_offset)

    def records(self, start: int, end: int) -> list[RowVersion]:
        return [
            raw_record(KINDS[kind][0], 0, offset, offset, KINDS[kind][1])
            for offset, kind in self.topic.items()
            if start <= offset < end
        ]

    def publish(self) -> None:
        self._take([(o, kind) for o, kind in self.topic.items() if o >= self.position and kind != "good"])
        self.position = self.next_offset

    def load(self, end: int) -> None:
        read = {offset: kind for offset, kind in self.topic.items() if offset < end}
        kept, self.kept = self.kept, []
        self.not_kept = Counter()
        self._take([(offset, kind) for offset, kind in kept if offset not in read])
        self._take([(offset, kind) for offset, kind in read.items() if kind != "good"])
        self.position = end

    def purge(self, offsets) -> None:
        self.kept = [(offset, kind) for offset, kind in self.kept if offset not in offsets]

    def _take(self, records) -> None:
        for record in records:
            if record in self.kept:
                continue
            if len(self.kept) < self.room:
                self.kept.append(record)
            else:
                self.not_kept[REASONS[record[1]]] += 1


@given(steps=STEPS, room=st.sampled_from([2, 1_000]))
def test_the_quarantine_is_what_a_plain_list_says(steps, room):
    model = Model(room)
    with fast_directory() as directory, ExitStack() as held:
        path = directory / "store"

        def opened() -> RocksStore:
            return RocksStore(path, SPECS, ManualClock(), room=Room(records=room))

        store = opened()
        held.callback(lambda: store.close())
        for step, given_ in steps:
            if step == "publish":
                versions = model.come(given_)
                store.publish({"t": TableUpdate(row_versions(versions), {0: model.next_offset})})
                model.publish()
            elif step == "compact":
                for offset in given_:
                    model.topic.pop(offset, None)
            elif step == "load":
                end = max(0, model.next_offset - given_)
                bulk = store.bulk("t")
                for version in model.records(0, end):
                    bulk.add(row_versions([version]))
                bulk.finish({0: end})
                model.load(end)
            elif step == "purge":
                store.purge("t", [QuarantineId(0, offset, offset) for offset in given_])
                model.purge(given_)
            else:
                store.close()
                store = opened()
            with closing(RocksReader(path, SPECS)) as reader:
                reader.verify()
                view = reader.snapshot().table("t")
                found = [(record.offset, record.reason) for record in view.quarantined()]
                assert found == sorted((offset, REASONS[kind]) for offset, kind in model.kept)
                assert Counter(view.quarantine.kept) == Counter(REASONS[kind] for _, kind in model.kept)
                assert Counter(view.quarantine.not_kept) == model.not_kept
