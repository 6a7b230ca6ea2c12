"""One thing after the other, the cache answers as its rules read out loud: no size bound, no threads, manual time."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from stores.cache import ABSENT, Absent, Backoff
from stores.errors import Unreachable
from tests.unit.stores.cache.by_hand import Hand, Source

REFRESH, EXPIRE, ABSENT_EXPIRE, FIRST, LONGEST = 4.0, 12.0, 6.0, 1.0, 4.0


@dataclass
class Kept:
    value: str | Absent
    expires: float
    due: float
    failures: int = 0


class Model:
    """What is kept for each key, and which keys have a reload waiting for a worker."""

    def __init__(self) -> None:
        self.now = 0.0
        self.store: dict[str, str] = {}
        self.is_away = False
        self.asked = 0
        self.kept: dict[str, Kept] = {}
        self.waiting: dict[str, Kept] = {}

    def read(self, key: str) -> str | Absent | None:
        """None: the read fails."""
        kept = self.kept.get(key)
        if kept is not None and self.now < kept.expires:
            if self.now >= kept.due and key not in self.waiting:
                self.waiting[key] = kept
            return kept.value
        self.waiting.pop(key, None)
        self.asked += 1
        if self.is_away:
            return None
        value = self.store.get(key, ABSENT)
        self.keep(key, value)
        return value

    def keep(self, key: str, value: str | Absent) -> None:
        never_due = self.now + ABSENT_EXPIRE
        self.kept[key] = (
            Kept(value, never_due, never_due) if value is ABSENT else Kept(value, self.now + EXPIRE, self.now + REFRESH)
        )

    def work(self) -> None:
        for key, kept in self.waiting.items():
            self.asked += 1
            if self.is_away:
                kept.failures += 1
                kept.due = self.now + min(LONGEST, FIRST * 2 ** (kept.failures - 1))
            else:
                self.keep(key, self.store.get(key, ABSENT))
        self.waiting.clear()

    def put(self, key: str, value: str) -> None:
        self.waiting.pop(key, None)
        self.keep(key, value)

    def invalidate(self, keys: str) -> None:
        for key in keys:
            self.waiting.pop(key, None)
            self.kept.pop(key, None)


KEYS = st.sampled_from("aaab")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), KEYS),
        st.tuples(st.just("read_and_work"), KEYS),
        st.tuples(st.just("read_many"), st.sampled_from(["a", "b", "ab", "ba"])),
        st.tuples(st.just("store"), KEYS),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("put"), KEYS),
        st.tuples(st.just("invalidate"), st.sampled_from(["a", "b", "ab"])),
        st.tuples(st.just("away"), st.sampled_from(["", "yes"])),
        st.tuples(st.just("work"), st.just("")),
        st.tuples(st.just("pass"), st.sampled_from(["0.5", "1", "2", "4", "8"])),
    ),
    min_size=20,
    max_size=60,
)


@given(steps=STEPS)
def test_the_cache_answers_as_its_rules_say(steps):
    hand = Hand(
        Source(), refresh_s=REFRESH, expire_s=EXPIRE, absent_expire_s=ABSENT_EXPIRE, backoff=Backoff(FIRST, LONGEST)
    )
    hand.time.now = 0.0
    model = Model()
    for number, (step, what) in enumerate(steps):
        value = f"v{number}"
        match step:
            case "read":
                assert read(hand, what) == model.read(what)
            case "read_and_work":
                assert read(hand, what) == model.read(what)
                model.work()
                hand.refreshed()
            case "read_many":
                expected = {key: model.read(key) for key in what}
                if None not in expected.values():  # a batch in which a load fails has no answer
                    assert hand.cache.get_many(what) == {k: v for k, v in expected.items() if v is not ABSENT}
                else:
                    assert {key: read(hand, key) for key in what} == expected
            case "store":
                model.store[what] = hand.source.rows[what] = value
            case "delete":
                model.store.pop(what, None)
                hand.source.rows.pop(what, None)
            case "put":
                model.put(what, value)
                hand.cache.put(what, value)
            case "invalidate":
                model.invalidate(what)
                hand.cache.invalidate_many(what)
            case "away":
                model.is_away = bool(what)
                hand.source.error = Unreachable("the store is away") if what else None
            case "work":
                model.work()
                hand.refreshed()
            case "pass":
                model.now += float(what)
                hand.time.advance(float(what))
        assert len(hand.source.asked) == model.asked


def read(hand: Hand, key: str) -> str | Absent | None:
    try:
        return hand.cache.get(key)
    except Unreachable:
        return None
