"""Records that cannot become row versions: every engine gives them back, and no table stops for them."""

import pytest

from stores.protocol import NO_KEY, NO_NETWORK, KeyKind, Quarantined
from stores.table import RowVersion, Status
from tests.contract.stores.store_under_test import table, version
from tests.support.stores.records import raw_record

GOOD = {"plan": "good"}


def test_a_publication_gives_back_all_that_it_quarantined_whole(open_store):
    store = open_store(users=table())
    store.clock.advance(77)
    now = store.clock.now_ms()
    bad = RowVersion(b"a", 0, 1, 1_000, b'{"plan": 5}')
    published = store.publish("users", bad, version("b", 2, GOOD))
    reason = "plan: expected text, got a whole number"
    assert published.quarantined == (Quarantined("users", 0, 1, 1_000, b"a", bad.value, reason, now),)


@pytest.mark.parametrize("key", [KeyKind.EXACT, KeyKind.CIDR])
@pytest.mark.parametrize("value", [b'{"plan": "x"}', b"no json", None])
def test_a_record_without_a_key_is_quarantined_and_no_row(open_store, key, value):
    store = open_store(t=table(key=key))
    good = version("10.0.0.0/8", 1, GOOD)
    published = store.publish("t", raw_record(None, 0, 0, 5, value), good)
    (record,) = published.quarantined
    assert (record.key, record.value, record.offset, record.reason) == (None, value, 0, NO_KEY)
    (probe,) = store.find("t", "10.0.0.0/8" if key is KeyKind.EXACT else "10.1.1.1")
    assert (probe.status, probe.position) == (Status.HIT, (0, 1))


def test_records_that_came_before_are_not_quarantined_again(open_store):
    store = open_store(users=table())
    bad = RowVersion(b"a", 0, 0, 0, b"no json")
    assert len(store.publish("users", bad).quarantined) == 1
    assert store.publish("users", bad, raw_record(None, 0, 0, 0, b"{}")).quarantined == ()


def test_the_reason_of_a_bad_network_holds_no_payload(open_store):
    store = open_store(networks=table(key=KeyKind.CIDR))
    (record,) = store.publish("networks", version("10.0.0.0/99", 0, GOOD)).quarantined
    assert (record.key, record.reason) == (b"10.0.0.0/99", NO_NETWORK)
