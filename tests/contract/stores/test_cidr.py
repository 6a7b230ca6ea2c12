"""What every engine promises about tables whose keys are networks."""

import pytest

from stores.protocol import KeyKind
from stores.table import Status
from tests.contract.stores.store_under_test import table, version


@pytest.fixture
def networks(open_store):
    store = open_store(networks=table(history_ms=3_600_000, key=KeyKind.CIDR))
    keys = ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "2001:db8::/32", "::/0"]
    store.publish("networks", *(version(key, offset, {"plan": key}) for offset, key in enumerate(keys)))
    return store


def plans(found):
    return [a.status if a.values is None else a.values["plan"] for a in found]


@pytest.mark.parametrize(
    ("probe", "network"),
    [
        ("10.9.9.9", "10.0.0.0/8"),
        ("10.1.9.9", "10.1.0.0/16"),
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.9.9", "10.1.0.0/16"),
        ("2001:db8:1::1", "2001:db8::/32"),
        ("2001:db9::", "::/0"),
        ("11.0.0.1", Status.MISS),
        ("::ffff:11.0.0.1", Status.MISS),
        ("10.0.0.0/8", Status.BAD_KEY),
        ("10.0.0", Status.BAD_KEY),
        ("", Status.BAD_KEY),
        ("010.0.0.1", Status.BAD_KEY),
        ("fe80::1%eth0", Status.BAD_KEY),
        (b"\xff\xfe", Status.BAD_KEY),
        (None, Status.NULL_KEY),
    ],
)
def test_the_longest_network_around_an_address_answers(networks, probe, network):
    assert plans(networks.find("networks", probe)) == [network]


def test_a_deleted_network_does_not_hide_the_one_around_it(networks):
    networks.publish("networks", version("10.1.0.0/16", 9, None), version("::/0", 10, None))
    assert plans(networks.find("networks", "10.1.9.9", "2001:db9::")) == ["10.0.0.0/8", Status.DELETED]
    assert plans(networks.find("networks", "10.1.9.9", pin={0: 9})) == ["10.1.0.0/16"]
    assert plans(networks.find("networks", "10.1.9.9", as_of=[8_999])) == ["10.1.0.0/16"]


def test_host_bits_are_masked_and_counted(networks):
    networks.publish("networks", version("10.1.77.7/16", 9, {"plan": "masked"}))
    assert plans(networks.find("networks", "10.1.9.9")) == ["masked"]


@pytest.mark.parametrize(
    "key", ["10.0.0.0/33", "10.0.0.0/255.0.0.0", "x", "", b"\xff", "fe80::1%eth0/64", "10.0.0.0/-1"]
)
def test_an_invalid_network_is_quarantined_and_the_table_goes_on(networks, key):
    published = networks.publish(
        "networks", version(key, 9, {"plan": "bad"}), version("12.0.0.0/8", 10, {"plan": "good"})
    )
    (record,) = published.quarantined
    assert record.offset == 9
    assert record.reason.startswith("the key is no network")
    assert plans(networks.find("networks", "12.1.1.1")) == ["good"]
