from stores.rocks.digest import added, digest_of


def test_the_digest_is_stored_so_it_never_changes():
    assert digest_of([], [], []) == 0
    assert f"{digest_of([b'a', b'b'], [0, 7], [1, 1 << 60]):016x}" == "46bdbcfd76677ff9"


def test_what_is_added_in_any_order_can_be_taken_away():
    one, two = digest_of([b"a"], [0], [1]), digest_of([b"b"], [1], [1])
    assert digest_of([b"b", b"a"], [1, 0], [1, 1]) == added(one, two, 0)
    assert added(added(one, two, 0), 0, one) == two


def test_key_partition_and_offset_all_matter():
    versions = [(b"a", 0, 0), (b"b", 0, 0), (b"a", 1, 0), (b"a", 0, 1)]
    assert len({digest_of([key], [partition], [offset]) for key, partition, offset in versions}) == 4
