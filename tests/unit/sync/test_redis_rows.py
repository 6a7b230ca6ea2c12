"""What is read of a key in Redis, whoever wrote it."""

import pytest

from stores.external.redis.rows import HashRows, TextRows
from sync_service.reconcile.stamps import has_version, stamps_of


@pytest.mark.parametrize("version", [b"10000000000000000000000", b"9" * 5_000], ids=["64 bits", "digits"])
def test_a_version_of_another_program_that_no_number_holds_is_none(version: bytes) -> None:
    for row in (
        HashRows(["plan"]).read({b"_version": version, b"_release": version, b"plan": b"x"}),
        TextRows().read(b'{"_version": %b, "_release": %b, "plan": "x"}' % (version, version)),
        TextRows().read(b'{"_version": %b, "_deleted": true}' % version),
    ):
        assert row.is_living
        assert not has_version(stamps_of([row.version], [row.release])).any()


def test_versions_and_releases_of_ours_are_read() -> None:
    row = HashRows(["plan"]).read({b"_version": b"9007199254740992", b"_release": b"3", b"plan": b"x"})
    assert (row.version, row.release) == (2**53, 3)
    text = TextRows().read(b'{"_version": 9007199254740992, "_release": 3, "_deleted": true}')
    assert (text.version, text.release, text.is_living) == (2**53, 3, False)
